// hardhat with its ethers and ignition plugins: https://hardhat.org. A process of its own, because a network belongs to its
// configuration; its compiler is not needed, for the contracts are not Solidity.

import assert from 'node:assert/strict';
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isAddress } from 'viem';
import { STATIONS, token, tour } from '../lib/tour.js';

const run = promisify(execFile);
const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const SILENT = {
  subscription: "hardhat's provider speaks HTTP only",
  batch: "hardhat's provider sends one request at a time",
};

tour('hardhat', async ({ network, node, keys, serves, t }) => {
  const env = {
    PATH: process.env.PATH,
    HOME: network.directory,
    HARDHAT_CONFIG: here('hardhat/hardhat.config.cjs'),
    HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true',
    PROJECT: network.directory,
    RPC: node.rpc,
    KEYS: keys.join(),
  };
  writeArtifact(network.directory);
  const project = fork(here('hardhat/tour.cjs'), { cwd: here('hardhat'), env });
  t.after(() => project.kill());
  const ended = once(project, 'exit').then(([code]) => assert.fail(`hardhat ended with ${code}`));
  ended.catch(() => {});
  const visit = async (station) => {
    project.send(station);
    const [{ error }] = await Promise.race([once(project, 'message'), ended]);
    if (error) assert.fail(error);
  };

  const stations = Object.fromEntries(STATIONS.map((station) => [station, SILENT[station] ?? (() => visit(station))]));
  return {
    ...stations,
    async deploy() {
      const flags = ['--config', env.HARDHAT_CONFIG, 'run', '--no-compile', here('hardhat/deploy.cjs'), '--network', 'corniche'];
      const { stdout } = await run(here('node_modules/.bin/hardhat'), flags, { cwd: here('hardhat'), env });
      assert.ok(isAddress(stdout.trim()), stdout);
      assert.match(await node.client.getCode({ address: stdout.trim() }), /^0xeff00000/);
      await visit('deploy');
    },
    trace: serves('debug_traceTransaction', 'debug_traceCall') ? stations.trace : 'the node has no tracer',
  };
});

/** What a compiler would leave behind. */
function writeArtifact(directory) {
  const folder = join(directory, 'artifacts/contracts/Token.sol');
  mkdirSync(folder, { recursive: true });
  const names = { _format: 'hh-sol-artifact-1', contractName: 'Token', sourceName: 'contracts/Token.sol' };
  const none = { deployedBytecode: '0x', linkReferences: {}, deployedLinkReferences: {} };
  writeFileSync(join(folder, 'Token.json'), JSON.stringify({ ...names, ...token, ...none }));
}
