// A user that sends one transfer after another while nodes start and stop, and stores every receipt.

import assert from 'node:assert/strict';
import { parseGwei } from 'viem';
import { until } from '../../js/until.js';

export class User {
  constructor(network, random) {
    Object.assign(this, { network, random, nonce: 0 });
    [this.account, this.other] = network.accounts;
    /** Received receipts: transaction hash to block hash. */
    this.receipts = new Map();
  }

  /** Sends a transfer through any of these nodes that accepts it, and waits for its receipt. */
  transfer(nodes = this.network.nodes) {
    const nonce = this.nonce++;
    const hashes = [];
    return until(`transfer ${nonce} to be executed`, async () => {
      const node = nodes[this.random(nodes.length)];
      const fees = { maxFeePerGas: parseGwei('50'), maxPriorityFeePerGas: 1n };
      await node
        .wallet(this.account)
        .sendTransaction({ to: this.other.address, value: 1n, nonce, gas: 21_000n, ...fees })
        .then((hash) => hashes.push(hash), () => {});
      for (const hash of hashes) {
        const receipt = await node.client.getTransactionReceipt({ hash }).catch(() => undefined);
        if (receipt) {
          this.receipts.set(hash, receipt.blockHash);
          return receipt;
        }
      }
      return undefined;
    });
  }

  /** Checks that every node has one chain up to the highest height of any of them. */
  async checkAgreement() {
    const heights = await Promise.all(this.network.nodes.map((node) => node.client.getBlockNumber()));
    const highest = heights.reduce((a, b) => (a > b ? a : b));
    const blocks = await Promise.all(this.network.nodes.map((node) => node.block(highest)));
    for (const { hash, stateRoot } of blocks) assert.deepEqual([hash, stateRoot], [blocks[0].hash, blocks[0].stateRoot]);
  }

  /** Checks that every node still has each receipt: the last `count`, or all. */
  async checkReceipts(count = this.receipts.size) {
    const kept = [...this.receipts].slice(-count);
    for (const node of this.network.nodes) {
      for (const [hash, blockHash] of kept) {
        const receipt = await node.client.getTransactionReceipt({ hash });
        assert.equal(receipt.blockHash, blockHash, `${node.name} answers another receipt for ${hash}`);
      }
    }
    assert.equal(this.receipts.size, this.nonce);
  }
}
