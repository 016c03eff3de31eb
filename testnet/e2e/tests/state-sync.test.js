// Nodes that join by a snapshot, under load and over epochs. Requirements: a new node fetches the state from several nodes, has no blocks
// before it and the same state after it, registers, becomes a member and signs; its state comes back from the snapshot after the loss of
// its database; a validator whose disk is lost joins by a snapshot and signs again; a snapshot that is copied as files is the same.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { numberToHex, parseEther } from 'viem';
import { corniche, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';
import { ask, ended, finalized, latency, Load, members, networkKey, PATIENT, signs } from '../lib/load.js';

const run = promisify(execFile);

const EPOCH_MS = 5_000;
const CLOSING_MS = 1_000;
/** Transfers per second. */
const RATE = Number(process.env.RATE ?? 50);
/** Price of a vote, in whole units. */
const VOTE = 100;

const bySnapshot = (config) => config.replace('mode = "auto"', 'mode = "snapshot"');

/** Heights of the snapshots that a node has, newest first. */
const snapshots = async (network, node) => {
  const { stdout } = await run(corniche, ['snapshot', 'list', '--genesis', genesis(network), '--data', node.dataDir]);
  return stdout.split('\n').filter(Boolean).map((line) => Number(line.split(' ')[0]));
};

const genesis = (network) => join(network.directory, 'genesis.json');

/** Lowest block that a node has, from what it says of block 1; 1 if it has that. */
const firstBlock = async (node) => {
  const { result, error } = await node.call('eth_getBlockByNumber', '0x1', false);
  if (result) return 1;
  const [, first] = error.message.match(/^block not available: pruned below (\d+)$/);
  assert.equal(error.code, -32000);
  return Number(first);
};

underEveryEngine('nodes join by a snapshot', { timeout: 600_000, except: ['neobft'] }, async (t, engine) => {
  const staking = [`epoch_ms=${EPOCH_MS}`, `closing_ms=${CLOSING_MS}`, `vote_wei=${parseEther(String(VOTE))}`];
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, staking });
  const { validators, accounts } = network;
  const [first] = validators;
  const [newcomer] = network.fullNodes;
  const folder = dirname(newcomer.config);
  const load = new Load(network, RATE);
  t.after(() => load.stop());

  const follows = async (node) => {
    const height = await finalized(first);
    await until(`block ${height} at ${node.name}`, async () => (await finalized(node)) >= height, PATIENT);
  };

  /** Compares what two nodes say of the newest block that both have. */
  const same = async (node) => {
    await follows(node);
    const height = numberToHex(Math.min(await finalized(node), await finalized(first)));
    for (const { address } of accounts.slice(0, 5)) {
      const [one, other] = await Promise.all([first, node].map((asked) => Promise.all([
        ask(asked, 'eth_getBalance', address, height), ask(asked, 'eth_getTransactionCount', address, height),
        ask(asked, 'eth_getProof', address, [], height).then(({ accountProof }) => accountProof),
      ])));
      assert.deepEqual(other, one, `${address} at ${node.name}`);
    }
  };

  await step('validators make the same snapshots', async () => {
    newcomer.kill();
    await newcomer.gone();
    load.down.add(newcomer);
    load.start();
    await ended(validators, 2);
    await until('a snapshot that all validators have', async () => {
      const [one, ...others] = await Promise.all(validators.map((node) => snapshots(network, node)));
      return one.some((height) => others.every((heights) => heights.includes(height)));
    }, PATIENT);
  });

  await step('a new node begins with a snapshot and registers', async () => {
    newcomer.loseDisk();
    await run(corniche, ['keys', 'new', '--out', join(folder, 'keys'), '--data', newcomer.dataDir]);
    const config = readFileSync(newcomer.config, 'utf8');
    const { stdout: status } = await run(corniche, ['validator', 'status', '--rpc', first.rpc]);
    const [, trust] = status.match(/^trust {2}(corniche-trust:\S+)$/m);
    writeFileSync(newcomer.config, bySnapshot(config)
      .replace(/^network_key = .*$/m, 'keys = "keys"')
      .replace('trust = "genesis"', `trust = "${trust}"`));
    const [, address] = config.match(/^listen = \["([^"]*)"\]/m);
    const started = Date.now();
    await newcomer.restart();
    t.diagnostic(`joined in ${Date.now() - started} ms`);
    assert.ok((await firstBlock(newcomer)) > 1);
    await same(newcomer);
    const secret = join(folder, 'owner.key');
    writeFileSync(secret, network.keys.at(-2), { mode: 0o600 });
    const validator = (command, ...flags) => run(corniche, ['validator', command, ...flags.map(String), '--rpc', newcomer.rpc]);
    const { stdout } = await validator('register', '--keys', join(folder, 'keys'), '--stake', VOTE, '--key-file', secret);
    await validator('set-endpoints', Number(stdout), address, '--key-file', secret);
    await until(`${newcomer.name} to be a member`, async () => (await members(first)).includes(networkKey(newcomer)), PATIENT);
    await newcomer.ordering();
    load.down.delete(newcomer);
    await signs(newcomer, first);
  });

  await step('its state comes back from the snapshot', async () => {
    const before = await firstBlock(newcomer);
    await load.kill(newcomer);
    rmSync(join(newcomer.dataDir, 'state'), { recursive: true });
    await newcomer.restart();
    assert.equal(await firstBlock(newcomer), before);
    await same(newcomer);
    await newcomer.ordering();
    load.down.delete(newcomer);
  });

  await step('a validator whose disk is lost joins by a snapshot', async () => {
    const lost = validators[3];
    await load.kill(lost);
    lost.loseDisk();
    writeFileSync(lost.config, bySnapshot(readFileSync(lost.config, 'utf8')));
    await lost.restart();
    assert.ok((await firstBlock(lost)) > 1);
    await same(lost);
    await lost.ordering();
    await signs(lost, first);
    load.down.delete(lost);
  });

  await step('a client follows all committees from the genesis at a node without the first blocks', async () => {
    const program = join(process.env.CLIENT_EXAMPLES ?? join(dirname(corniche), 'examples'), 'verify');
    const env = { ...process.env, CORNICHE_KEY: network.keys.at(-4), CORNICHE_RPC: newcomer.rpc };
    const [account] = accounts.slice(-5);
    const { stdout } = await run(program, [genesis(network), account.address], { env });
    assert.match(stdout, /is final in block \d+: /);
  });

  await step('a snapshot is copied as files', async () => {
    const out = join(network.directory, 'exported');
    const flags = ['--genesis', genesis(network)];
    await run(corniche, ['snapshot', 'export', ...flags, '--data', newcomer.dataDir, '--out', out]);
    const { stdout } = await run(corniche, ['snapshot', 'verify', ...flags, out]);
    const [, height] = stdout.match(/^the snapshot of block (\d+) is valid$/m);
    const lost = validators[3];
    await load.kill(lost);
    lost.loseDisk();
    await run(corniche, ['snapshot', 'import', ...flags, '--data', lost.dataDir, out]);
    await lost.restart();
    assert.equal(await firstBlock(lost), Number(height) + 1);
    await same(lost);
    await lost.ordering();
    await signs(lost, first);
    load.down.delete(lost);
    // A changed byte is found.
    const chunk = join(out, 'chunks/0');
    const bytes = readFileSync(chunk);
    bytes[bytes.length - 1] ^= 1;
    writeFileSync(chunk, bytes);
    await assert.rejects(run(corniche, ['snapshot', 'verify', ...flags, out]), /chunk 0/);
  });

  await step('every transfer was executed once, and nobody is accused', async () => {
    load.stop();
    await load.executed();
    t.diagnostic(latency(load.transfers.filter(({ tookMs }) => tookMs !== undefined)));
    const height = Math.max(...load.transfers.map(({ receipt }) => Number(receipt.blockNumber)));
    for (const node of network.nodes) {
      await until(`block ${height} at ${node.name}`, async () => (await finalized(node)) >= height, PATIENT);
      for (const index of network.nodes.keys()) {
        assert.equal(await node.client.getTransactionCount({ address: accounts[index].address }), load.nonces[index], node.name);
      }
      const metrics = await (await fetch(node.metrics)).text();
      assert.match(metrics, /^corniche_accusations_total 0$/m, node.name);
      assert.match(metrics, /^corniche_peer_faults_total 0$/m, node.name);
      assert.match(metrics, /^corniche_coin_share_missing 0$/m, node.name);
      assert.ok(existsSync(join(node.dataDir, 'snapshots')), node.name);
    }
  });
});
