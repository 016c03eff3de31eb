// A validator whose keys are in a signer, and two processes with one validator's keys. Requirements: the node orders and certifies with
// signatures of the signer; without it, it follows and signs nothing; after a restart of the signer it signs again; a second node
// gets no signatures; a second process with keys of its own is found out and stops with exit code 11.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseEther } from 'viem';
import { corniche, freePorts, METRICS_PORT_OFFSET, Node, PEER_PORT_OFFSET, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';
import { ask, finalized, PATIENT } from '../lib/load.js';

const TWIN = 11;

/** Indices of a certificate's signers. */
const signers = ({ signers }) => [...BigInt(signers).toString(2)].reverse().flatMap((bit, index) => (bit === '1' ? [index] : []));

const metric = async (node, name) => {
  const text = await (await fetch(node.metrics)).text();
  return Number(text.match(new RegExp(`^${name} (\\d+)$`, 'm'))?.[1]);
};

/** A process on a copy of a node's directory, with ports of its own. */
async function copyOf(node, name, { data }) {
  const folder = dirname(node.config);
  const copy = join(dirname(folder), name);
  const left = (path) => path.endsWith('.sock') || (path.startsWith(node.dataDir) && !data);
  cpSync(folder, copy, { recursive: true, filter: (path) => !left(path) });
  const dataDir = join(copy, relative(folder, node.dataDir));
  const port = await freePorts(1);
  const [rpc, peers, metrics] = [port, port + PEER_PORT_OFFSET, port + METRICS_PORT_OFFSET];
  const config = join(copy, 'node.toml');
  const text = readFileSync(node.config, 'utf8')
    .replace(/^rpc = .*$/m, `rpc = "127.0.0.1:${rpc}"`)
    .replace(/^metrics = .*$/m, `metrics = "127.0.0.1:${metrics}"`)
    .replace(/^listen = .*$/m, `listen = ["/ip4/127.0.0.1/tcp/${peers}"]`);
  writeFileSync(config, text);
  const parts = { name, role: 'validator', rpc: `http://127.0.0.1:${rpc}`, metrics: `http://127.0.0.1:${metrics}/metrics` };
  return new Node({ ...parts, config, dataDir, log: join(copy, 'node.log') }, node.network);
}

underEveryEngine('a signer', { timeout: 600_000, except: ['mir', 'neobft'] }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine });
  const [first, second, , signed] = network.validators;
  const index = 3;
  const folder = dirname(signed.config);
  const [keys, socket, marks] = ['signing', 'signer.sock', 'marks'].map((name) => join(folder, name));
  let signer;
  t.after(() => signer?.kill('SIGKILL'));

  const startSigner = (...flags) => {
    const log = openSync(join(folder, 'signer.log'), 'a');
    signer = spawn(corniche, ['signer', '--keys', keys, '--socket', socket, '--marks', marks, ...flags], { stdio: ['ignore', log, log] });
  };
  const stopSigner = async (signal) => {
    signer.kill(signal);
    await until('the signer to end', () => signer.exitCode !== null || signer.signalCode !== null);
  };
  let account = 0;
  const send = (node) => {
    account += 1;
    const from = network.accounts[account % network.accounts.length];
    return node.wallet(from).sendTransaction({ to: network.accounts[0].address, value: parseEther('0.001') });
  };
  const pay = async (node) => node.receipt(await send(node));
  /** Waits until a block is final that this validator has signed, with payments meanwhile. */
  const signs = (validator) => until(`a certificate with a signature of validator ${validator}`, async () => {
    await pay(first);
    const height = await finalized(first);
    const certificate = await ask(first, 'corniche_getCertificate', `0x${height.toString(16)}`);
    return certificate && signers(certificate).includes(validator);
  }, PATIENT);

  await step('the node orders and certifies with signatures of the signer', async () => {
    signed.kill();
    await signed.gone();
    mkdirSync(keys, { mode: 0o700 });
    for (const name of ['consensus.key', 'bls.key']) renameSync(join(folder, 'keys', name), join(keys, name));
    writeFileSync(signed.config, `signer = "unix:signer.sock"\n${readFileSync(signed.config, 'utf8')}`);
    // It signed before without marks, in epoch 0, and its node has what it signed.
    startSigner('--from-epoch', '0');
    await until('the signer is up', () => readFileSync(join(folder, 'signer.log'), 'utf8').includes('signer is up'));
    await signed.restart();
    await signed.ordering();
    await signs(index);
    await pay(signed);
    assert.equal(await metric(signed, 'corniche_signer_up'), 1);
    assert((await metric(signed, 'corniche_signer_signatures_total')) > 0);
  });

  await step('without the signer the others go on, and the node follows', async () => {
    await stopSigner('SIGKILL');
    const { blockNumber } = await pay(first);
    const receipts = [];
    for (let count = 0; count < 5; count += 1) receipts.push(await pay(second));
    await signed.block(receipts.at(-1).blockNumber);
    assert(blockNumber < receipts.at(-1).blockNumber);
    await until('the node to miss its signer', async () => (await metric(signed, 'corniche_signer_up')) === 0);
  });

  await step('after a restart of the signer it signs again', async () => {
    startSigner();
    await signs(index);
    await pay(signed);
    await stopSigner('SIGTERM');
    startSigner();
    await signs(index);
  });

  await step('a second node gets no signatures', async () => {
    const other = await copyOf(signed, 'copy', { data: true });
    const config = readFileSync(other.config, 'utf8');
    writeFileSync(other.config, config.replace(/^signer = .*$/m, `signer = "unix:${socket}"`));
    await assert.rejects(other.restart(), /ended with 1/);
    assert.match(readFileSync(other.log, 'utf8'), /another node is connected/);
  });

  await step('of two processes with the same keys one stops with exit code 11', async () => {
    const twin = await copyOf(second, 'twin', { data: false });
    // As a child of this process, whose exit code is visible.
    second.kill();
    await second.gone();
    await second.restart();
    await second.ordering();
    await twin.restart();
    t.after(() => twin.kill());
    const stopped = await until('one of both to stop', async () => {
      // One that has stopped takes nothing.
      for (const node of [second, twin]) send(node).catch(() => {});
      await pay(first);
      return [second, twin].find((node) => node.child && node.child.exitCode !== null);
    }, PATIENT);
    assert.equal(stopped.child.exitCode, TWIN);
    assert.match(readFileSync(stopped.log, 'utf8'), /another process signs with this validator's keys/);
  });
});
