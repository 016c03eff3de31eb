// A network whose epochs end every four seconds, under load. Requirements: an end loses no transaction and executes none twice; the
// last block of each epoch has a certificate of its own at every node; a validator that was away for an end orders again, also if all
// validators restart at once.

import assert from 'node:assert/strict';
import { keccak256, numberToHex } from 'viem';
import { agree, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

const EPOCH_MS = 4_000;
const CLOSING_MS = 500;
/** Transfers per second. */
const RATE = 50;
/** A transfer sent less than this before or after the end of an epoch is sent around it. */
const AROUND_MS = 500;
/** Signers of a certificate. */
const QUORUM = 3;
/** Deadline of epochs and receipts on a busy machine. */
const PATIENT = { deadlineMs: 120_000 };
/** Requests in flight, or in a batch, while many results are read. */
const CHUNK = 50;

/** Result of a call. Fails on an error. */
async function ask(node, method, ...params) {
  const { result, error } = await node.call(method, ...params);
  assert.equal(error, undefined, `${method} at ${node.name}`);
  return result;
}

const epochOf = async (node) => Number((await ask(node, 'corniche_getStaking', 'latest')).epoch);
const finalized = async (node) => Number((await ask(node, 'eth_getBlockByNumber', 'finalized', false)).number);

/** Waits until `count` more epochs have ended at all these nodes. */
async function ended(nodes, count) {
  const epoch = Math.max(...(await Promise.all(nodes.map(epochOf)))) + count;
  await Promise.all(nodes.map((node) => until(`epoch ${epoch} at ${node.name}`, async () => (await epochOf(node)) >= epoch, PATIENT)));
}

function* chunks(list) {
  for (let first = 0; first < list.length; first += CHUNK) yield list.slice(first, first + CHUNK);
}

/** Sends transfers at a fixed rate: one account for each node, which uses the next node while its own is down. */
class Load {
  constructor(network) {
    Object.assign(this, { network, nonces: network.accounts.map(() => 0), down: new Set() });
    /** All transfers: `{ index, nonce, raw, hash, sentAt }`, and `{ receipt, tookMs }` after execution. */
    this.transfers = [];
    this.executions = [];
  }

  start() {
    const { nodes, validators } = this.network;
    const started = Date.now();
    let due = 0;
    this.timer = setInterval(() => {
      // On a busy machine timers are late.
      for (; due < ((Date.now() - started) * RATE) / 1_000; due += 1) {
        if (validators.some((node) => !this.down.has(node))) this.track(this.execute(due % nodes.length));
      }
    }, 1_000 / RATE);
  }

  stop() {
    clearInterval(this.timer);
  }

  kill(node) {
    this.down.add(node);
    node.kill();
    return node.gone();
  }

  async restart(node) {
    await node.restart();
    await node.ordering();
    this.down.delete(node);
  }

  track(execution) {
    this.executions.push(execution.catch((error) => (this.failure ??= error)));
  }

  /** Waits until all transfers sent so far are executed. */
  async executed() {
    await Promise.all(this.executions);
    if (this.failure) throw this.failure;
  }

  async sign(index) {
    const { accounts, chain } = this.network;
    const transfer = { index, nonce: this.nonces[index]++ };
    this.transfers.push(transfer);
    const fees = { type: 'eip1559', gas: 21_000n, maxFeePerGas: 50n * 10n ** 9n, maxPriorityFeePerGas: 1n };
    const fields = { chainId: chain.id, to: accounts.at(-1).address, value: 1n, nonce: transfer.nonce, ...fees };
    transfer.raw = await accounts[index].signTransaction(fields);
    transfer.hash = keccak256(transfer.raw);
    return transfer;
  }

  /** Sends a transfer and waits for its receipt. If its node is killed before the response, another node gets the transfer too. */
  async execute(index) {
    const { nodes } = this.network;
    const transfer = await this.sign(index);
    transfer.sentAt = Date.now();
    transfer.receipt = await until(`transfer ${transfer.nonce} of account ${index}`, async () => {
      const node = [...nodes.slice(index), ...nodes].find((node) => !this.down.has(node));
      const { result, error } = await node.call('eth_sendRawTransactionSync', transfer.raw, 20_000);
      const receipt = result ?? (await ask(node, 'eth_getTransactionReceipt', transfer.hash));
      if (!receipt) throw new Error(`${node.name}: ${error.message}`);
      return receipt;
    }, PATIENT);
    transfer.tookMs = Date.now() - transfer.sentAt;
  }

  /** Sends a transfer once, and returns when the node has accepted it. */
  async accept(index, node) {
    const transfer = await this.sign(index);
    assert.equal(await ask(node, 'eth_sendRawTransaction', transfer.raw), transfer.hash);
    const receipt = () => ask(node, 'eth_getTransactionReceipt', transfer.hash);
    const waiting = until(`transfer ${transfer.nonce} of account ${index}, which ${node.name} accepted`, receipt, PATIENT);
    this.track(waiting.then((receipt) => (transfer.receipt = receipt)));
  }
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

/** Text with the quantiles of the receipts' latency. */
function latency(transfers) {
  const sorted = transfers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${sorted.at(-1)} ms (${sorted.length} transfers)`;
}

underEveryEngine('epochs end', { timeout: 600_000 }, async (t, engine) => {
  const staking = [`epoch_ms=${EPOCH_MS}`, `closing_ms=${CLOSING_MS}`];
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, staking });
  const { validators, nodes, accounts } = network;
  const [first] = nodes;
  const reader = await Reader.open(first);
  const load = new Load(network);
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
