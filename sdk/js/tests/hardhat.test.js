// hardhat with its ethers and ignition plugins: https://hardhat.org.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAddress } from 'viem';
import { hardhat } from '../lib/hardhat.js';
import { STATIONS, token, tour } from '../lib/tour.js';

const SILENT = {
  subscription: "hardhat's provider speaks HTTP only",
  batch: "hardhat's provider sends one request at a time",
};

tour('hardhat', async ({ network, node, keys, serves, t }) => {
  writeArtifact(network.directory);
  const { run, start } = hardhat(network, keys.join());
  const project = start('tour.cjs');
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
      const deployed = (await run('deploy.cjs')).trim();
      assert.ok(isAddress(deployed), deployed);
      assert.match(await node.client.getCode({ address: deployed }), /^0xeff00000/);
      await visit('deploy');
    },
    trace: serves('debug_traceTransaction', 'debug_traceCall') ? stations.trace : 'the node has no tracer',
  };
});

/** Writes the artifact that a compiler would write. */
function writeArtifact(directory) {
  const folder = join(directory, 'artifacts/contracts/Token.sol');
  mkdirSync(folder, { recursive: true });
  const names = { _format: 'hh-sol-artifact-1', contractName: 'Token', sourceName: 'contracts/Token.sol' };
  const none = { deployedBytecode: '0x', linkReferences: {}, deployedLinkReferences: {} };
  writeFileSync(join(folder, 'Token.json'), JSON.stringify({ ...names, ...token, ...none }));
}
