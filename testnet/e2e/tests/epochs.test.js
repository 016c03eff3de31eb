// A network whose epochs end every four seconds, under load. Requirements: an end loses no transaction and executes none twice; the
// last block of each epoch has a certificate of its own at every node; a validator that was away for an end orders again, also if all
// validators restart at once.

import assert from 'node:assert/strict';
import { numberToHex } from 'viem';
import { agree, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';
import { ask, ended, finalized, latency, Load, PATIENT } from '../lib/load.js';

const EPOCH_MS = 4_000;
const CLOSING_MS = 500;
/** Transfers per second. */
const RATE = 50;
/** A transfer sent less than this before or after the end of an epoch is sent around it. */
const AROUND_MS = 500;
/** Signers of a certificate. */
const QUORUM = 3;
/** Requests in flight, or in a batch, while many results are read. */
const CHUNK = 50;

function* chunks(list) {
  for (let first = 0; first < list.length; first += CHUNK) yield list.slice(first, first + CHUNK);
}

/** Reads the chain block by block, and checks epochs and nonces. */
class Reader {
  static async open(node) {
    const { epoch, startMs } = await ask(node, 'corniche_getStaking', '0x0');
    return Object.assign(new Reader(), { height: 0, epoch: Number(epoch), startMs: Number(startMs), ends: [], nonces: new Map() });
  }

  /** Reads this node's final blocks that were not read yet. */
  async read(node) {
    const last = await finalized(node);
    const heights = Array.from({ length: last - this.height }, (_, offset) => numberToHex(this.height + 1 + offset));
    for (const chunk of chunks(heights)) {
      const blocks = await Promise.all(chunk.map((height) => Promise.all([
        ask(node, 'corniche_getOrdering', height),
        ask(node, 'eth_getBlockByNumber', height, true),
      ])));
      for (const [ordering, block] of blocks) this.block(ordering, block);
    }
  }

  block(ordering, { number, hash, transactions }) {
    this.height = Number(number);
    const what = `block ${this.height}`;
    assert.equal(Number(ordering.epoch), this.epoch, what);
    this.committee ??= ordering.committeeHash;
    assert.equal(ordering.committeeHash, this.committee, what);
    for (const { from, nonce } of transactions) {
      assert.equal(Number(nonce), this.nonces.get(from) ?? 0, `${what}, nonce of ${from}`);
      this.nonces.set(from, Number(nonce) + 1);
    }
    const timeMs = Number(ordering.timestampMs);
    // The first block after the time is the last one of its epoch.
    const isLast = timeMs >= this.startMs + EPOCH_MS;
    assert.equal(ordering.nextCommitteeHash !== ordering.committeeHash, isLast, what);
    if (!isLast) return;
    this.ends.push({ epoch: this.epoch, height: this.height, hash, timeMs, committee: this.committee, next: ordering.nextCommitteeHash });
    Object.assign(this, { epoch: this.epoch + 1, startMs: timeMs, committee: ordering.nextCommitteeHash });
  }
}

/** Checks the end of an epoch at a node, once the first block after it is final there. */
async function checkEnd(node, { epoch, height, hash, committee, next }) {
  await until(`block ${height + 1} to be final at ${node.name}`, async () => (await finalized(node)) > height);
  const what = `end of epoch ${epoch} at ${node.name}`;
  const certificate = await ask(node, 'corniche_getCertificate', numberToHex(height));
  const { epoch: signedIn, blockNumber, blockHash, committeeHash, signers } = certificate;
  assert.deepEqual([Number(signedIn), Number(blockNumber), blockHash, committeeHash], [epoch, height, hash, committee], what);
  assert.ok(Number(signers).toString(2).replaceAll('0', '').length >= QUORUM, what);
  const after = await ask(node, 'corniche_getCertificate', numberToHex(height + 1));
  assert.deepEqual([Number(after.epoch), after.committeeHash], [epoch + 1, next], what);
}

underEveryEngine('epochs end', { timeout: 600_000, except: ['neobft'] }, async (t, engine) => {
  const staking = [`epoch_ms=${EPOCH_MS}`, `closing_ms=${CLOSING_MS}`];
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, staking });
  const { validators, nodes, accounts } = network;
  const [first] = nodes;
  const reader = await Reader.open(first);
  const load = new Load(network, RATE);
  t.after(() => load.stop());

  /** Checks the ends that the reader found since the last call, at all nodes. */
  let checked = 0;
  const checkEnds = async (count) => {
    await reader.read(first);
    const ends = reader.ends.slice(checked);
    assert.ok(ends.length >= count, `expected ${count} ends, got ${ends.length}`);
    checked = reader.ends.length;
    await Promise.all(nodes.flatMap((node) => ends.map((end) => checkEnd(node, end))));
    const last = ends.at(-1);
    await agree(nodes, { blockNumber: BigInt(last.height), blockHash: last.hash });
    for (const node of nodes) {
      const running = await ask(node, 'corniche_getStaking', 'latest');
      const begins = await until(`the block before epoch ${Number(running.epoch)} to be final`, async () => {
        await reader.read(first);
        return reader.ends[Number(running.epoch) - 1];
      });
      assert.deepEqual([running.startBlock, running.startMs].map(Number), [begins.height, begins.timeMs], node.name);
    }
  };

  /** Waits until the node has all blocks that are final at the other one now, and checks the newest. */
  const caughtUp = async (node, other) => {
    const height = await finalized(other);
    await until(`block ${height} to be final at ${node.name}`, async () => (await finalized(node)) >= height, PATIENT);
    await agree([node], { blockNumber: BigInt(height), blockHash: (await other.block(BigInt(height))).hash });
  };

  /** Prints the latency of the transfers sent since the last report, separately for those around an end. */
  let reported = 0;
  const report = (when) => {
    const sent = load.transfers.slice(reported).filter(({ tookMs }) => tookMs !== undefined);
    reported = load.transfers.length;
    const isAround = ({ sentAt }) => reader.ends.some(({ timeMs }) => Math.abs(sentAt - timeMs) <= AROUND_MS);
    t.diagnostic(`${engine}, ${when}, calm: ${latency(sent.filter((transfer) => !isAround(transfer)))}`);
    t.diagnostic(`${engine}, ${when}, around ends: ${latency(sent.filter(isAround))}`);
  };

  await step('epochs end under load', async () => {
    load.start();
    // The first blocks of a chain take up to two seconds, so their transfers are not measured.
    await ended(nodes, 1);
    reported = load.transfers.length;
    await ended(nodes, 3);
    await load.executed();
    await checkEnds(4);
    report('all validators up');
  });

  await step('a validator that was away for two ends orders again', async () => {
    const away = validators[3];
    await load.kill(away);
    await ended(nodes.filter((node) => node !== away), 2);
    await load.restart(away);
    await caughtUp(away, first);
    await checkEnds(2);
  });

  await step('it is needed while another validator is down', async () => {
    const down = validators[1];
    await load.kill(down);
    // The first one may have been ordered before the kill.
    await ended(nodes.filter((node) => node !== down), 2);
    await load.restart(down);
    await caughtUp(down, first);
    await checkEnds(2);
    await load.executed();
    report('one validator down');
  });

  const moments = {
    'during an epoch': async () => {},
    'when an epoch ends': async () => {
      const { endMs } = await ask(first, 'corniche_getStaking', 'latest');
      await until('the end of the epoch', () => Date.now() >= Number(endMs));
    },
  };
  for (const [moment, reached] of Object.entries(moments)) {
    await step(`all validators restart ${moment}`, async () => {
      await reached();
      // These accounts are not those of the load.
      await Promise.all(validators.map((node, index) => load.accept(nodes.length + index, node)));
      await Promise.all(validators.map((node) => load.kill(node)));
      await Promise.all(validators.map((node) => load.restart(node)));
      await ended(nodes, 2);
      await checkEnds(2);
    });
  }

  await step('every transfer was executed once, and every node has its receipt', async () => {
    load.stop();
    await load.executed();
    const { receipt: newest } = load.transfers.reduce((a, b) => (Number(a.receipt.blockNumber) > Number(b.receipt.blockNumber) ? a : b));
    const height = Number(newest.blockNumber);
    await Promise.all(nodes.map((node) => until(`block ${height} to be final at ${node.name}`, async () => (await finalized(node)) >= height)));
    await agree(nodes, { blockNumber: BigInt(height), blockHash: newest.blockHash });
    await reader.read(first);
    for (const [index, { address }] of accounts.entries()) {
      assert.equal(reader.nonces.get(address.toLowerCase()) ?? 0, load.nonces[index]);
      for (const node of nodes) assert.equal(await node.client.getTransactionCount({ address }), load.nonces[index], node.name);
    }
    for (const node of nodes) {
      for (const chunk of chunks(load.transfers)) {
        const batch = chunk.map(({ hash }, id) => ({ jsonrpc: '2.0', id, method: 'eth_getTransactionReceipt', params: [hash] }));
        for (const { id, result } of (await node.post(batch)).answer) {
          assert.deepEqual([result.blockHash, result.status], [chunk[id].receipt.blockHash, '0x1'], `${chunk[id].hash} at ${node.name}`);
        }
      }
      const metrics = await (await fetch(node.metrics)).text();
      assert.match(metrics, /^corniche_accusations_total 0$/m, node.name);
    }
    t.diagnostic(`${engine}: ${load.transfers.length} transfers, ${reader.height} blocks, ${reader.ends.length} ends`);
  });
});
