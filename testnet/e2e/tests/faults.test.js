// Faults of four validators, one after another on one chain: a partition into halves, an isolated validator, a lost disk.
// Requirements: no half makes progress alone, no transaction with a receipt changes, and
// afterwards the affected validator is as good as the others: the chain makes progress with it and without another one.

import assert from 'node:assert/strict';
import { RECOVERY_COMMITS } from '../lib/faults.js';
import { withNetwork, underEveryEngine } from '../../js/network.js';
import { until } from '../../js/until.js';

/** Duration of a partition, under load. */
const partedMs = Number(process.env.PARTED_MS ?? 3_000);

underEveryEngine('partitions and a lost disk', { timeout: 600_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine, links: true });
  const { links, validators } = network;
  /** Next nonce by account. */
  const nonces = new Map();
  /** Sent transfers, and the nodes that must have them in the end. */
  const sent = [];

  /** Sends one transfer to this node, which need not be able to order it. */
  const send = async (node, account) => {
    const nonce = nonces.get(account) ?? 0;
    const fees = { gas: 21_000n, maxFeePerGas: 50n * 10n ** 9n, maxPriorityFeePerGas: 1n };
    const hash = await node.wallet(account).sendTransaction({ to: account.address, value: 1n, nonce, ...fees });
    nonces.set(account, nonce + 1);
    sent.push(hash);
    return hash;
  };

  /** Waits until all sent transfers are in equal blocks at all these nodes. Returns the height. */
  const settled = async (nodes) => {
    // The relays run in this process too, so it sends few requests at a time.
    for (const node of nodes) {
      for (const [account, nonce] of nonces) {
        const { address } = account;
        await until(`${node.name} to have executed ${nonce} transfers of ${address}`, async () => {
          return (await node.client.getTransactionCount({ address })) === nonce;
        });
      }
    }
    const seen = [];
    for (const hash of sent) {
      const receipts = await Promise.all(nodes.map((node) => node.client.getTransactionReceipt({ hash })));
      for (const { blockHash } of receipts) assert.equal(blockHash, receipts[0].blockHash);
      seen.push(receipts[0].blockNumber);
    }
    const highest = seen.reduce((a, b) => (a > b ? a : b));
    const blocks = await Promise.all(nodes.map((node) => node.block(highest)));
    for (const { hash, stateRoot } of blocks) assert.deepEqual([hash, stateRoot], [blocks[0].hash, blocks[0].stateRoot]);
    return highest;
  };

  const peers = (node, count) =>
    until(`${node.name} to have ${count} peers`, async () => Number((await node.call('net_peerCount')).result) === count);

  /** The chain makes progress without this node, so each of the others is needed. */
  const goesOnWithout = async (other) => {
    other.kill();
    await other.gone();
    const up = validators.filter((node) => node !== other);
    for (const [index, node] of up.entries()) await send(node, network.accounts[4 + index]);
    await settled(up);
    await other.restart();
    await Promise.all(validators.map((node) => peers(node, 3)));
    await settled(validators);
  };

  await step('all nodes are connected', async () => {
    await Promise.all(validators.map((node) => peers(node, 3)));
    for (const [index, node] of validators.entries()) await send(node, network.accounts[index]);
    await settled(validators);
  });

  await step('an equal partition stops and continues after healing', async () => {
    await settled(validators);
    links.part(validators.slice(0, 2));
    await Promise.all(validators.map((node) => peers(node, 1)));
    const heights = await Promise.all(validators.map((node) => node.client.getBlockNumber()));
    const before = heights.reduce((a, b) => (a > b ? a : b));
    const late = [];
    const healed = Date.now() + partedMs;
    while (Date.now() < healed) {
      await Promise.all(validators.map(async (node, index) => late.push(await send(node, network.accounts[index]))));
      for (const node of validators) {
        // Transactions ordered before the cut may still be executed.
        assert.ok((await node.client.getBlockNumber()) <= before + 1n);
        await assert.rejects(node.client.getTransactionReceipt({ hash: late.at(-1) }));
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    for (const hash of late) await assert.rejects(validators[0].client.getTransactionReceipt({ hash }));
    links.heal();
    await Promise.all(validators.map((node) => peers(node, 3)));
    const met = Date.now();
    await settled(validators);
    const [meeting, agreeing] = [met - healed, Date.now() - met];
    t.diagnostic(`${engine}: ${late.length} transfers of ${partedMs} ms apart; all connected after ${meeting} ms, all agreed ${agreeing} ms later`);
  });

  await step('an isolated validator catches up', async () => {
    const [, other, , lonely] = validators;
    links.part([lonely], { silently: true });
    const others = validators.filter((node) => node !== lonely);
    for (let count = 0; count < 6; count += 1) {
      await send(others[count % 3], network.accounts[count % 3]);
      await settled(others);
    }
    links.heal();
    await settled(validators);
    await goesOnWithout(other);
  });

  await step('a validator recovers from a lost disk', async () => {
    const [first, , unlucky] = validators;
    // If no other node receives this transfer, it is lost with the disk.
    await send(unlucky, network.accounts[3]);
    sent.pop();
    nonces.delete(network.accounts[3]);
    unlucky.kill();
    await unlucky.gone();
    unlucky.loseDisk();
    const others = validators.filter((node) => node !== unlucky);
    for (let count = 0; count < 5; count += 1) await send(others[count % 3], network.accounts[7 + (count % 3)]);
    await unlucky.restart();
    await settled(validators);
    await unlucky.ordering();
    // It signs nothing that it may have signed before: in Autobahn, about the next twelve slots.
    for (let count = 0; count < RECOVERY_COMMITS; count += 1) {
      await send(first, network.accounts[7]);
      await settled([first]);
    }
    await goesOnWithout(first);
  });
});
