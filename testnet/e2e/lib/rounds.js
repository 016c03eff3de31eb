// Rounds of seeded faults on real processes, under load. Every fault ends within its round. Then all nodes agree, no receipt is
// lost, and a new transfer is executed.

import assert from 'node:assert/strict';
import { withNetwork } from '../../js/network.js';
import { Faults } from './faults.js';
import { seeded } from './random.js';
import { User } from './users.js';

/** Number of receipts requested from every node after each round; at the end all are. */
const RECENT = 20;

/**
 * `kinds`: the faults of the rounds in turn. Otherwise `rounds` random faults, from `only` if given. `progressMs`: time limit
 * after the end of a fault for a new transfer and for all nodes to catch up; by default there is no limit.
 */
export async function faultRounds(t, engine, { seed, rounds, kinds, only, lastsMs, frozenMs, progressMs = Infinity }) {
  const random = seeded(seed);
  const { network, step } = await withNetwork(t, { validators: 4, engine, links: true });
  const user = new User(network, random);
  const faults = new Faults(network, random, { lastsMs, frozenMs });
  if (!(await faults.mountDisk(network.validators[3]))) t.diagnostic('nothing can be mounted: no rounds with full and read-only disks');
  if (!faults.haveClocks()) t.diagnostic('libfaketime is not installed: no rounds with wrong clocks');
  if (only) faults.kinds = faults.kinds.filter((kind) => only.includes(kind));
  const drawn = kinds?.filter((kind) => faults.kinds.includes(kind)) ?? Array.from({ length: rounds }, () => undefined);

  let isWhole = true;
  for (const [number, kind] of drawn.entries()) {
    // Otherwise the next rounds would be blamed for this one's effects.
    if (!isWhole) break;
    isWhole = false;
    const fault = kind ? faults.make(kind) : faults.draw();
    await step(`round ${number + 1}: ${fault.name}`, async () => {
      let isHurt = true;
      const hurt = fault.hurt().finally(() => (isHurt = false));
      const using = fault.left.length > 0 ? transferWhile(() => isHurt, user, fault.left) : undefined;
      await Promise.all([hurt, using]);
      await fault.heal(user);
      const healed = Date.now();
      await user.transfer(network.validators);
      await user.checkAgreement();
      const took = Date.now() - healed;
      t.diagnostic(`round ${number + 1}: ${fault.name}; whole after ${took} ms`);
      await user.checkReceipts(RECENT);
      assert.ok(took <= progressMs, `${fault.name}: progress took ${took} ms, bar ${progressMs}`);
      isWhole = true;
    });
  }

  if (isWhole) await step('all receipts are stored', () => user.checkReceipts());
}

/** Sends one transfer after another. */
async function transferWhile(isHurt, user, nodes) {
  while (isHurt()) {
    await user.transfer(nodes);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
