// A network whose validators made the genesis themselves, with their own keys, and dealt the coin together. Requirements: the chain
// orders with that coin, also when one validator never acknowledged a dealing and everybody had to show it its values.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { METRICS_PORT_OFFSET, Network, PEER_PORT_OFFSET, agree, corniche, freePorts, newest, withSteps } from '../../js/network.js';

const run = promisify(execFile);

/** The first development accounts, whose keys are public. */
const KEYS = [
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a',
  '0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6',
];

const MEMBERS = KEYS.map((_, index) => index);
/** It deals, and then does not answer. */
const SILENT = 3;

test('validators deal the coin together', { timeout: 300_000 }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'corniche-ceremony-'));
  const call = async (...words) => {
    const { stdout } = await run(corniche, words, { cwd: directory });
    return stdout === '' ? undefined : JSON.parse(stdout);
  };
  const member = (index, command, files, ...more) => {
    return call('genesis', command, 'draft.json', ...files, '--keys', `${index}/keys`, ...more);
  };
  const files = (name, members = MEMBERS) => members.map((index) => `${name}-${index}.json`);
  const answering = MEMBERS.filter((index) => index !== SILENT);

  for (const index of MEMBERS) await call('keys', 'new', '--out', `${index}/keys`, '--data', `${index}/data`);
  const from = MEMBERS.map((index) => `${index}/keys/public.json`);
  const { draft } = await call('genesis', 'draft', '--dev-accounts', '--from', ...from);
  for (const index of MEMBERS) await member(index, 'deal', [], '--yes', draft);
  for (const index of answering) await member(index, 'acknowledge', files('deal'));
  const acknowledged = [...files('deal'), ...files('ack', answering)];
  for (const index of answering) await member(index, 'open', acknowledged);
  const opened = files('open', answering);
  const sealed = await call('genesis', 'seal', 'draft.json', ...acknowledged, ...opened, '--missing');
  assert.equal(sealed.coinDraft, draft);
  // All others acknowledged the silent one's dealing, and it has a share like them.
  for (const index of MEMBERS) await member(index, 'finish', [...files('deal'), ...opened]);

  const { chainId, peerIds } = await call('genesis', 'check', '--json');
  const port = await freePorts(MEMBERS.length);
  const peer = (index) => `/ip4/127.0.0.1/tcp/${port + PEER_PORT_OFFSET + index}`;
  const nodes = MEMBERS.map((index) => {
    const folder = join(directory, String(index));
    const lines = {
      genesis: '../genesis.json',
      keys: 'keys',
      rpc: `127.0.0.1:${port + index}`,
      metrics: `127.0.0.1:${port + METRICS_PORT_OFFSET + index}`,
      listen: [peer(index)],
      peers: MEMBERS.filter((other) => other !== index).map((other) => `${peer(other)}/p2p/${peerIds[other]}`),
    };
    const config = join(folder, 'node.toml');
    writeFileSync(config, Object.entries(lines).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join(''));
    return {
      name: `validator-${index}`,
      role: 'validator',
      rpc: `http://${lines.rpc}`,
      metrics: `http://${lines.metrics}/metrics`,
      config,
      dataDir: join(folder, 'data'),
      log: join(folder, 'node.log'),
    };
  });
  const { network, step } = withSteps(t, new Network(directory, { chainId, nodes, accounts: KEYS.map((key) => ({ key })) }));

  await step('they start, and order payments', async () => {
    await Promise.all(network.nodes.map((node) => node.restart()));
    await Promise.all(network.nodes.map((node) => node.ordering()));
    const to = network.accounts[0].address;
    const receipts = await Promise.all(network.nodes.map(async (node, index) => {
      return node.receipt(await node.wallet(network.accounts[index]).sendTransaction({ to, value: 1n }));
    }));
    await agree(network.nodes, newest(receipts));
    const log = readFileSync(network.nodes[0].log, 'utf8');
    assert.ok(!log.includes('dealt the coin and could know it'), 'nobody knows this coin');
  });
});
