// A network whose validators have unequal votes. Requirements: quorums are votes, so more validators may be down than where all
// have one vote, and a validator that returns is as good as the others.

import assert from 'node:assert/strict';
import { agree, newest, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

/** Three of twelve votes may be faulty: both validators with one vote, or one of them and one with two. */
const VOTES = [3, 3, 2, 2, 1, 1];
const QUORUM = 9;

underEveryEngine('unequal votes', { timeout: 600_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: VOTES.length, votes: VOTES, engine });
  const { validators } = network;

  /** Sends one payment through each of these nodes, and waits until the blocks are final there. Returns the newest receipt. */
  const pay = async (nodes) => {
    const receipts = await Promise.all(nodes.map(async (node, index) => {
      const hash = await node.wallet(network.accounts[index]).sendTransaction({ to: network.accounts.at(-1).address, value: 1n });
      const receipt = await node.receipt(hash);
      await until(`block ${receipt.blockNumber} to be final at ${node.name}`, async () => {
        return (await node.client.getBlock({ blockTag: 'finalized' })).number >= receipt.blockNumber;
      });
      return receipt;
    }));
    return newest(receipts);
  };

  await step('the committee has the votes of the genesis', async () => {
    const { result: committee } = await validators[0].call('corniche_getValidators');
    assert.deepEqual(committee.validators.map(({ votes }) => Number(votes)), VOTES);
    assert.equal(Number(committee.quorum), QUORUM);
    await agree(validators, await pay(validators));
  });

  await step('two validators with three votes together are down', async () => {
    const down = [validators[3], validators[5]];
    for (const node of down) node.kill();
    await Promise.all(down.map((node) => node.gone()));
    const up = validators.filter((node) => !down.includes(node));
    const receipt = await pay(up);
    await agree(up, receipt);
    const certificate = await until(`${up[0].name} to have the certificate`, async () => {
      return (await up[0].call('corniche_getCertificate', `0x${receipt.blockNumber.toString(16)}`)).result;
    });
    const signers = VOTES.filter((_, index) => (Number.parseInt(certificate.signers.slice(2, 4), 16) >> index) & 1);
    assert.deepEqual(signers, [3, 3, 2, 1]);
    await Promise.all(down.map((node) => node.restart()));
    await agree(down, receipt);
  });

  await step('they return, and are needed while the others with three votes are down', async () => {
    const down = validators[0];
    down.kill();
    await down.gone();
    const up = validators.filter((node) => node !== down);
    await agree(up, await pay(up));
  });
});
