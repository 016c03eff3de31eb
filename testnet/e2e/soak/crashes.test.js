// Random crashes under load: at any moment one, two or all validators are killed and started again, while transfers go to
// whoever is there. What must hold: a receipt once seen is never taken back, all nodes end with the same chain, and the chain
// goes on. ROUNDS crashes (default 50) under each engine, or the ones in ENGINE; SEED repeats a run's choices, though not the
// system's timing.

import assert from 'node:assert/strict';
import { parseGwei } from 'viem';
import { story, underEveryEngine } from '../lib/network.js';
import { until } from '../lib/until.js';

const rounds = Number(process.env.ROUNDS ?? 50);
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

// mulberry32: enough for choices, and repeatable.
let state;
function random(below) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % below;
}

underEveryEngine(`random crashes under load (seed ${seed}, ${rounds} rounds)`, { timeout: 3_600_000 }, async (t, engine) => {
  state = seed;
  const { network, step } = await story(t, { validators: 4, fullNodes: 1, engine });
  const [alice, bob] = network.accounts;
  /** Receipts that somebody was given: hash to block hash. */
  const receipts = new Map();

  /** Sends a transfer through whichever node takes it, and waits until a receipt was seen. */
  async function transfer(nonce) {
    const hashes = [];
    return until(`transfer ${nonce} to be executed`, async () => {
      const node = network.nodes[random(network.nodes.length)];
      const fees = { maxFeePerGas: parseGwei('50'), maxPriorityFeePerGas: 1n };
      await node
        .wallet(alice)
        .sendTransaction({ to: bob.address, value: 1n, nonce, gas: 21_000n, ...fees })
        .then((hash) => hashes.push(hash), () => {});
      for (const hash of hashes) {
        const receipt = await node.client.getTransactionReceipt({ hash }).catch(() => undefined);
        if (receipt) {
          receipts.set(hash, receipt.blockHash);
          return receipt;
        }
      }
      return undefined;
    });
  }

  let nonce = 0;
  await step(`${rounds} crashes`, async () => {
    for (let round = 0; round < rounds; round += 1) {
      const count = [1, 1, 1, 2, 4][random(5)];
      const victims = [...network.validators].sort(() => random(2) - 0.5).slice(0, count);
      const sent = transfer(nonce++);
      const chosen = random(3);
      if (chosen === 0) await sent;
      for (const node of victims) node.kill();
      await Promise.all(victims.map((node) => node.gone()));
      if (count === 1 && chosen === 1) await sent;
      await Promise.all(victims.map((node) => node.restart()));
      await sent;
    }
  });

  await step('every receipt is still there, everywhere the same', async () => {
    const heights = await Promise.all(network.nodes.map((node) => node.client.getBlockNumber()));
    const highest = heights.reduce((a, b) => (a > b ? a : b));
    const blocks = await Promise.all(network.nodes.map((node) => node.block(highest)));
    for (const block of blocks) assert.equal(block.hash, blocks[0].hash);
    for (const block of blocks) assert.equal(block.stateRoot, blocks[0].stateRoot);
    for (const node of network.nodes) {
      for (const [hash, blockHash] of receipts) {
        const receipt = await node.client.getTransactionReceipt({ hash });
        assert.equal(receipt.blockHash, blockHash, `${node.name} answers another receipt for ${hash}`);
      }
    }
    assert.equal(receipts.size, rounds);
  });

  await step('the chain goes on', () => transfer(nonce++));
});
