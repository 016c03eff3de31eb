// Rounds of seeded faults on real processes, under load. Every round ends healed; then all nodes agree, no receipt is lost, and a new
// transfer is executed.

import assert from 'node:assert/strict';
import { story } from './network.js';
import { Faults } from './faults.js';
import { seeded } from './random.js';
import { User } from './users.js';

/** Receipts that are asked for on every node after each round; all of them are at the end. */
const RECENT = 20;

/**
 * `kinds`: the faults of the rounds in turn; without it as many `rounds` are drawn, from `only` these if it is given. `progressMs`: how soon after a round is healed
 * a new transfer must be executed and every node have caught up; without it only that they do.
 */
export async function faultRounds(t, engine, { seed, rounds, kinds, only, lastsMs, frozenMs, progressMs = Infinity }) {
  const random = seeded(seed);
  const { network, step } = await story(t, { validators: 4, engine, links: true });
  const user = new User(network, random);
  const faults = new Faults(network, random, { lastsMs, frozenMs });
  if (!(await faults.mountDisk(network.validators[3]))) t.diagnostic('nothing can be mounted: no rounds with full and read-only disks');
  if (!faults.haveClocks()) t.diagnostic('libfaketime is not installed: no rounds with wrong clocks');
  if (only) faults.kinds = faults.kinds.filter((kind) => only.includes(kind));
  const drawn = kinds?.filter((kind) => faults.kinds.includes(kind)) ?? Array.from({ length: rounds }, () => undefined);

  let isWhole = true;
  for (const [number, kind] of drawn.entries()) {
    // What a round leaves behind would be blamed on the next ones.
    if (!isWhole) break;
    isWhole = false;
    const fault = kind ? faults.make(kind) : faults.draw();
    await step(`round ${number + 1}: ${fault.name}`, async () => {
      let isHurt = true;
      const hurt = fault.hurt().finally(() => (isHurt = false));
      const using = fault.left.length > 0 ? useWhile(() => isHurt, user, fault.left) : undefined;
      await Promise.all([hurt, using]);
      await fault.heal(user);
      const healed = Date.now();
      await user.transfer(network.validators);
      await user.agreement();
      const took = Date.now() - healed;
      t.diagnostic(`round ${number + 1}: ${fault.name}; whole after ${took} ms`);
      await user.keptReceipts(RECENT);
      assert.ok(took <= progressMs, `${fault.name}: progress took ${took} ms, bar ${progressMs}`);
      isWhole = true;
    });
  }

  if (isWhole) await step('every receipt is still there', () => user.keptReceipts());
}

/** One transfer after another. */
async function useWhile(isHurt, user, nodes) {
  while (isHurt()) {
    await user.transfer(nodes);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
