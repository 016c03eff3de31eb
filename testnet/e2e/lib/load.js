// Load on a network whose epochs end, and questions about its epochs.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { keccak256, numberToHex } from 'viem';
import { until } from '../../js/until.js';

/** Deadline of epochs and receipts on a busy machine. */
export const PATIENT = { deadlineMs: 120_000 };
/** Result of a call. Fails on an error. */
export async function ask(node, method, ...params) {
  const { result, error } = await node.call(method, ...params);
  assert.equal(error, undefined, `${method} at ${node.name}`);
  return result;
}

export const epochOf = async (node) => Number((await ask(node, 'corniche_getStaking', 'latest')).epoch);
export const finalized = async (node) => Number((await ask(node, 'eth_getBlockByNumber', 'finalized', false)).number);

/** Network key of a validator, from its key directory. */
export const networkKey = (node) => JSON.parse(readFileSync(join(dirname(node.config), 'keys/public.json'), 'utf8')).network_key;

/** Network keys of the members of the running committee, by index. */
export const members = async (node) => (await ask(node, 'corniche_getValidators')).validators.map(({ networkKey }) => networkKey);

/** Indices of a certificate's signers. */
const signers = ({ signers }) => [...BigInt(signers).toString(2)].reverse().flatMap((bit, index) => (bit === '1' ? [index] : []));

/** Waits until a block is final at `witness` that `node` has signed. */
export const signs = (node, witness) => until(`a certificate with a signature of ${node.name}`, async () => {
  const [index, height] = [(await members(witness)).indexOf(networkKey(node)), await finalized(witness)];
  const { epoch } = await ask(witness, 'corniche_getValidators');
  const certificate = await ask(witness, 'corniche_getCertificate', numberToHex(height));
  return Number(certificate?.epoch) === Number(epoch) && signers(certificate).includes(index);
}, PATIENT);

/** Waits until `count` more epochs have ended at all these nodes. */
export async function ended(nodes, count) {
  const epoch = Math.max(...(await Promise.all(nodes.map(epochOf)))) + count;
  await Promise.all(nodes.map((node) => until(`epoch ${epoch} at ${node.name}`, async () => (await epochOf(node)) >= epoch, PATIENT)));
}

/** Most transfers in flight. Each holds a connection, and a node accepts 512 from one address. */
const MAX_IN_FLIGHT = 400;

/** Sends transfers at a fixed rate while few are in flight: one account for each node, which uses the next node while its own is down. */
export class Load {
  /** `rate`: transfers per second. */
  constructor(network, rate) {
    Object.assign(this, { network, rate, nonces: network.accounts.map(() => 0), down: new Set() });
    /** All transfers: `{ index, nonce, raw, hash, sentAt }`, and `{ receipt, tookMs }` after execution. */
    this.transfers = [];
    this.executions = [];
    this.inFlight = 0;
  }

  start() {
    const { nodes, validators } = this.network;
    const started = Date.now();
    let due = 0;
    this.timer = setInterval(() => {
      // On a busy machine timers are late.
      for (; due < ((Date.now() - started) * this.rate) / 1_000; due += 1) {
        const isUp = validators.some((node) => !this.down.has(node));
        if (isUp && this.inFlight < MAX_IN_FLIGHT) this.track(this.execute(due % nodes.length));
      }
    }, 1_000 / this.rate);
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
    this.inFlight += 1;
    this.executions.push(execution.catch((error) => (this.failure ??= error)).finally(() => (this.inFlight -= 1)));
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

/** Text with the quantiles of the receipts' latency. */
export function latency(transfers) {
  const sorted = transfers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${sorted.at(-1)} ms (${sorted.length} transfers)`;
}
