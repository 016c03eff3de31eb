// A network whose committee changes, under load. Requirements: a fifth node begins with a snapshot, registers, becomes a member and signs; it
// replaces its keys without a restart; a member that is killed through the end of an epoch loses its seat and gets it back; one unbonds its
// stake and leaves; one signs two proposals for one position, and loses stake; users lose no transfer. Each new committee of
// Mahi-Mahi has a coin that the one before dealt to it, and all its members have shares. Prints the latency of transfers around the ends of epochs.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { numberToHex, parseEther } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { corniche, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';
import { ask, ended, epochOf, finalized, latency, Load, members, networkKey, PATIENT, signs } from '../lib/load.js';

const run = promisify(execFile);
const equivocate = join(dirname(corniche), 'corniche-equivocate');

const EPOCH_MS = 5_000;
const CLOSING_MS = 1_000;
/** Transfers per second. */
const RATE = Number(process.env.RATE ?? 200);
/** A transfer sent less than this before or after the end of an epoch is sent around it. */
const AROUND_MS = 500;
/** Price of a vote, in whole units. The development accounts have 10,000 each. */
const VOTE = 100;

underEveryEngine('the committee changes', { timeout: 600_000, except: ['neobft'] }, async (t, engine) => {
  // The last step trusts the genesis. It may be older than 14 short epochs on a slow machine.
  const epochs = [`epoch_ms=${EPOCH_MS}`, `closing_ms=${CLOSING_MS}`, 'unbonding_epochs=60'];
  const staking = [...epochs, `vote_wei=${parseEther(String(VOTE))}`];
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, staking });
  const { validators, accounts } = network;
  const [first] = validators;
  const [newcomer] = network.fullNodes;
  const folder = dirname(newcomer.config);
  const secret = join(folder, 'owner.key');
  writeFileSync(secret, network.keys.at(-2), { mode: 0o600 });
  const load = new Load(network, RATE);
  t.after(() => load.stop());

  const validator = (command, ...flags) => run(corniche, ['validator', command, ...flags.map(String), '--rpc', first.rpc]);

  /** Waits until these nodes are the members, at each of `nodes`. */
  const seated = (expected, nodes) => {
    const keys = expected.map(networkKey).toSorted();
    return Promise.all(nodes.map((node) => until(`${expected.length} members at ${node.name}`, async () => {
      const found = (await members(node)).toSorted();
      return found.length === keys.length && found.every((key, index) => key === keys[index]);
    }, PATIENT)));
  };

  /** Prints the latency of the transfers sent since the last report: the calm ones, and those around the ends of epochs. */
  let [reported, epoch] = [0, 0];
  const report = async (when) => {
    const sent = load.transfers.slice(reported).filter(({ tookMs }) => tookMs !== undefined);
    reported = load.transfers.length;
    const ends = [];
    for (const running = await epochOf(first); epoch < running; epoch += 1) {
      ends.push(Number((await ask(first, 'corniche_getEpoch', numberToHex(epoch))).endMs));
    }
    const isAround = ({ sentAt }) => ends.some((endMs) => Math.abs(sentAt - endMs) <= AROUND_MS);
    t.diagnostic(`${engine}, ${when}, calm: ${latency(sent.filter((transfer) => !isAround(transfer)))}`);
    t.diagnostic(`${engine}, ${when}, around ends: ${latency(sent.filter(isAround))}`);
  };

  await step('epochs end under load', async () => {
    newcomer.kill();
    await newcomer.gone();
    load.down.add(newcomer);
    load.start();
    // The first blocks of a chain take up to two seconds, so their transfers are not measured.
    await ended(validators, 1);
    [reported, epoch] = [load.transfers.length, await epochOf(first)];
    await ended(validators, 2);
    await report('four members');
  });

  await step('a fifth node begins with a snapshot, registers, becomes a member and signs', async () => {
    newcomer.loseDisk();
    await run(corniche, ['keys', 'new', '--out', join(folder, 'keys'), '--data', newcomer.dataDir]);
    const config = readFileSync(newcomer.config, 'utf8');
    writeFileSync(newcomer.config, config.replace(/^network_key = .*$/m, 'keys = "keys"').replace('mode = "auto"', 'mode = "snapshot"'));
    const [, address] = config.match(/^listen = \["([^"]*)"\]/m);
    await newcomer.restart();
    const { error } = await newcomer.call('eth_getBlockByNumber', '0x1', false);
    assert.match(error.message, /^block not available: pruned below \d+$/);
    const { stdout } = await validator('register', '--keys', join(folder, 'keys'), '--stake', VOTE, '--key-file', secret);
    newcomer.id = Number(stdout);
    await validator('set-endpoints', newcomer.id, address, '--key-file', secret);
    await seated([...validators, newcomer], network.nodes);
    await newcomer.ordering();
    load.down.delete(newcomer);
    await signs(newcomer, first);
    await report('one joins');
  });

  await step('a member replaces its keys without a restart', async () => {
    const keys = join(folder, 'keys');
    const before = readFileSync(join(keys, 'consensus.key'), 'utf8');
    await run(corniche, ['keys', 'next', keys]);
    const next = JSON.parse(readFileSync(join(keys, 'next/public.json'), 'utf8'));
    await validator('rotate', newcomer.id, '--keys', join(keys, 'next'), '--key-file', secret);
    const listed = async (node) => (await ask(node, 'corniche_getValidators')).validators.some(
      ({ consensusKey }) => consensusKey === next.consensus_key);
    await Promise.all(network.nodes.map((node) => until(`the new key at ${node.name}`, () => listed(node), PATIENT)));
    await signs(newcomer, first);
    await until('the new keys moved up', () => !existsSync(join(keys, 'next')), PATIENT);
    const [old] = readdirSync(keys).filter((name) => name.startsWith('old-'));
    assert.equal(readFileSync(join(keys, old, 'consensus.key'), 'utf8'), before);
    await report('one replaces its keys');
    await load.kill(newcomer);
    await newcomer.restart();
    await newcomer.ordering();
    load.down.delete(newcomer);
    await signs(newcomer, first);
  });

  await step('a member that is killed through the end of an epoch loses its seat, and gets it back', async () => {
    const [, away] = validators;
    await load.kill(away);
    const others = network.nodes.filter((node) => node !== away);
    await seated(others, others);
    await signs(newcomer, first);
    await away.restart();
    await seated(network.nodes, network.nodes);
    await away.ordering();
    await signs(away, first);
    load.down.delete(away);
    await report('one away');
  });

  await step('a member unbonds its stake and leaves', async () => {
    const leaver = validators[2];
    const key = join(dirname(leaver.config), 'keys/fee.key');
    const owner = privateKeyToAccount(`0x${readFileSync(key, 'utf8').trim().replace(/^0x/, '')}`);
    const account = accounts.at(-3);
    await first.receipt(await first.wallet(account).sendTransaction({ to: owner.address, value: parseEther('1') }));
    await validator('unbond', 2, 'all', '--key-file', key);
    const rest = network.nodes.filter((node) => node !== leaver);
    await seated(rest, network.nodes);
    await ended(rest, 1);
    await signs(newcomer, first);
    // It follows the others and serves users.
    const height = await finalized(first);
    await until(`block ${height} at ${leaver.name}`, async () => (await finalized(leaver)) >= height, PATIENT);
    await report('one leaves');
  });

  await step('a client follows all committees from the genesis', async () => {
    const program = join(process.env.CLIENT_EXAMPLES ?? join(dirname(corniche), 'examples'), 'verify');
    const env = { ...process.env, CORNICHE_KEY: network.keys.at(-4), CORNICHE_RPC: first.rpc };
    const [account] = accounts.slice(-5);
    const { stdout } = await run(program, [join(network.directory, 'genesis.json'), account.address], { env });
    const [, height] = stdout.match(/is final in block (\d+): /);
    const certificate = await ask(first, 'corniche_getCertificate', `0x${BigInt(height).toString(16)}`);
    assert(Number(certificate.epoch) > 2);
  });

  await step('nobody is accused', async () => {
    await load.executed();
    for (const node of network.nodes) {
      const metrics = await (await fetch(node.metrics)).text();
      assert.match(metrics, /^corniche_accusations_total 0$/m, node.name);
      assert.match(metrics, /^corniche_peer_faults_total 0$/m, node.name);
      assert.match(metrics, /^corniche_coin_share_missing 0$/m, node.name);
      const [, generation] = metrics.match(/^corniche_coin_generation (\d+)$/m);
      assert.equal(Number(generation) > 0, engine === 'mahi-mahi', `${node.name}: generation ${generation}`);
    }
  });

  await step('a member that signs two proposals loses stake', async () => {
    const id = 3;
    const liar = validators[id];
    const others = network.nodes.filter((node) => node !== liar);
    const stake = async () => {
      const { validators, parameters } = await ask(first, 'corniche_getStaking', 'latest');
      const found = validators.find((validator) => Number(validator.id) === id);
      return { bonded: BigInt(found.bonded), slash: (BigInt(found.bonded) * BigInt(parameters.slashBps)) / 10_000n };
    };
    const before = await stake();
    await load.kill(liar);
    const peers = await Promise.all(others.map(async (node) => {
      const [, address] = readFileSync(node.config, 'utf8').match(/^listen = \["([^"]*)"\]/m);
      return `${address}/p2p/${(await ask(node, 'corniche_getPeers')).own.peerId}`;
    }));
    const flags = { genesis: join(network.directory, 'genesis.json'), keys: join(dirname(liar.config), 'keys'), id, rpc: first.rpc };
    const { stdout } = await run(equivocate, [...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]), ...peers]);
    t.diagnostic(`${engine}: convicted ${JSON.parse(stdout).convictedAfterMs} ms after its first contradiction`);
    assert.equal((await stake()).bonded, before.bonded - before.slash);
    const { offences } = await ask(first, 'corniche_getOffences', '0x0');
    assert.deepEqual(offences.map(({ id, votes }) => [id, votes].map(Number)), [[id, 1]]);
    // Three members would be too few, so the committee stays.
    await ended(others, 1);
    await report('one is convicted');
  });

  await step('every transfer was executed once', async () => {
    load.stop();
    await load.executed();
    const height = Math.max(...load.transfers.map(({ receipt }) => Number(receipt.blockNumber)));
    for (const node of network.nodes.filter((node) => !load.down.has(node))) {
      await until(`block ${height} at ${node.name}`, async () => (await finalized(node)) >= height, PATIENT);
      for (const index of network.nodes.keys()) {
        const { address } = accounts[index];
        assert.equal(await node.client.getTransactionCount({ address }), load.nonces[index], node.name);
      }
    }
  });
});
