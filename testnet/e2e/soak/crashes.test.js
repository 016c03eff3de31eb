// Random crashes under load: at any moment one, two or all validators are killed and restarted, while transfers go to
// the running ones. Requirements: receipts are final, all nodes end with one chain, and the chain makes
// progress. ROUNDS crashes (default 50) under each engine, or those in ENGINE. SEED repeats a run's choices, but not the
// system's timing.

import { withNetwork, underEveryEngine } from '../../js/network.js';
import { seeded, shuffled } from '../lib/random.js';
import { User } from '../lib/users.js';

const rounds = Number(process.env.ROUNDS ?? 50);
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

underEveryEngine(`random crashes under load (seed ${seed}, ${rounds} rounds)`, { timeout: 3_600_000 }, async (t, engine) => {
  const random = seeded(seed);
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine });
  const user = new User(network, random);

  await step(`${rounds} crashes`, async () => {
    for (let round = 0; round < rounds; round += 1) {
      const count = [1, 1, 1, 2, 4][random(5)];
      const victims = shuffled(random, network.validators).slice(0, count);
      const sent = user.transfer();
      const chosen = random(3);
      if (chosen === 0) await sent;
      for (const node of victims) node.kill();
      await Promise.all(victims.map((node) => node.gone()));
      if (count === 1 && chosen === 1) await sent;
      await Promise.all(victims.map((node) => node.restart()));
      await sent;
    }
  });

  await step('all nodes have every receipt', async () => {
    await user.checkAgreement();
    await user.checkReceipts();
  });

  await step('the chain continues', () => user.transfer());
});
