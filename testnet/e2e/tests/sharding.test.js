// A network in which validators take each other's word for signatures (`signatures` in the genesis is `sharded`). Requirements:
// they check less, full nodes check everything, and nothing depends on a single validator.

import assert from 'node:assert/strict';
import { agree, newest, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

const ROUNDS = 10;

underEveryEngine('signature sharding', { timeout: 600_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, signatures: 'sharded' });
  const { validators } = network;
  const [follower] = network.fullNodes;

  /** Number of signatures that a node checked since its start. */
  const checks = async (node) => Number((await (await fetch(node.metrics)).text()).match(/^corniche_signatures_recovered_total (\d+)$/m)[1]);
  const sum = async (nodes) => (await Promise.all(nodes.map(checks))).reduce((total, count) => total + count, 0);
  /** Sends one payment through each of these nodes, and returns the receipts. */
  const pay = (nodes) =>
    Promise.all(nodes.map(async (node, index) => {
      const hash = await node.wallet(network.accounts[index]).sendTransaction({ to: network.accounts.at(-1).address, value: 1n });
      return node.receipt(hash);
    }));

  await step('validators check a part of the signatures, full nodes all', async () => {
    const { result: committee } = await follower.call('corniche_getValidators');
    assert.equal(committee.signatures, 'sharded');
    const before = [await sum(validators), await checks(follower)];
    let last;
    for (let round = 0; round < ROUNDS; round += 1) last = newest(await pay(validators));
    await agree(network.nodes, last);
    const count = ROUNDS * validators.length;
    const checked = await sum(validators) - before[0];
    assert.ok(checked < count * validators.length, `${checked} checks of ${count} transactions`);
    assert.ok(checked >= count * 2, 'f + 1 validators check each');
    await until('the full node to check each', async () => await checks(follower) - before[1] >= count);
  });

  await step('users are served while an attester is down, and it returns', async () => {
    const [down, ...others] = validators;
    down.kill();
    await down.gone();
    await pay(others);
    await down.restart();
    await agree(network.nodes, newest(await pay(others)));
  });
});
