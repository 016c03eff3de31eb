// The DAG page on a live network under Autobahn: lanes of cars, and the cuts through them.

import assert from 'node:assert/strict';
import test from 'node:test';
import { withNetwork } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { Explorer, areSound, areWhole, close } from '../lib/explorer.js';

/** Returns the value of a name in a list of facts. */
const fact = (part, name) => {
  const term = part.page().locator('dt', { hasText: new RegExp(`^${name}$`) });
  return part.locator('dl > div').filter({ has: term }).locator('dd');
};

test('explorer under Autobahn', { timeout: 900_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine: 'autobahn', explorer: true });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const pay = async () => node.receipt(await node.wallet(owner).sendTransaction({ to: friend.address, value: 1n }));

  /** Waits until the explorer has all slots and cars of its node, and returns them. */
  const settled = () => until('the explorer to know every slot and car', async () => {
    const { result } = await node.call('corniche_getDag', 'latest', '0x40');
    const { engine, rounds, cars } = await (await fetch(`${network.explorer}/api/v1/dag`)).json();
    const slots = rounds.flatMap((round) => round.slots);
    const digests = (vertices) => vertices.map(({ digest }) => digest).sort();
    assert.equal(engine, 'autobahn');
    assert.deepEqual(slots, result.slots);
    assert.deepEqual(digests(cars), digests(result.vertices));
    assert.ok(slots.length > 1 && slots.every(({ commit }) => commit), 'every slot led to its commit');
    return { slots, cars };
  });

  let known;

  await step('catches up with the node', async () => {
    let last;
    for (let count = 0; count < 3; count += 1) last = await pay();
    await until('the newest transaction to be certified', async () => {
      const page = await fetch(`${network.explorer}/tx/${last.transactionHash}`);
      return page.ok && (await page.text()).includes('is-certified');
    });
    known = await settled();
    assert.ok(known.cars.length >= 3, 'one for each payment');
  });

  const explorer = await Explorer.open(t, network.explorer);
  const [slot, car] = [known.slots.at(-1), known.cars.at(-1)];
  const number = Number(slot.round);
  const picks = [`${number}.0`, car.digest].map((pick) => `/dag?round=${number}&pick=${pick}`);
  const paths = ['/', '/dag', ...picks, '/blocks', '/block/1', '/validator/0'];

  await step('DAG pages pass on desktop, on a phone and in the dark theme', () => areSound(explorer, paths));

  await step('draws lanes, cars and cuts', async () => {
    const { slots, cars } = await settled();
    const page = await explorer.visit('/dag');
    const titles = (of) => page.locator(`#picture ${of} > title`).allTextContents();
    assert.equal(await page.locator('#picture path.lane').count(), 4);
    const cuts = slots.map(({ round, validator, why }) => `Slot ${Number(round)}, Validator ${Number(validator)} leads: committed, ${why}`);
    assert.deepEqual(await titles('a.cut'), cuts);
    assert.ok(slots.every(({ why }) => /^(fast|slow) in view \d+$/.test(why)), cuts.join('; '));
    const places = cars.map(({ round, author }) => `Car ${Number(round)}, Validator ${Number(author)}`).sort();
    assert.deepEqual((await titles('a.vertex')).map((title) => title.split(':')[0]).sort(), places);
    const middles = (of) => page.locator(`#picture ${of}`).evaluateAll((all) => all.map((element) => {
      const { y, height } = element.getBoundingClientRect();
      return y + height / 2;
    }));
    const lanes = await middles('path.lane');
    for (const { digest, author } of cars) {
      const [stands] = await middles(`#v${digest.slice(2, 10)} circle.reach`);
      const nearest = lanes.toSorted((one, other) => Math.abs(one - stands) - Math.abs(other - stands))[0];
      assert.equal(lanes.indexOf(nearest), Number(author), `${digest} stands at ${stands}, lanes at ${lanes}`);
    }
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('picture updates live', async () => {
    const page = await explorer.visit('/dag');
    const newest = async () => Number(await page.locator('#dag').getAttribute('data-newest'));
    const before = await newest();
    // Reloading the page would remove this mark.
    await page.evaluate(() => { document.documentElement.dataset.same = 'yes'; });
    await until('the picture to have a newer slot', async () => {
      if (await newest() > before) return true;
      // The page does not receive events from before it subscribed.
      await pay();
      return false;
    });
    await page.locator(`#s${before + 1}-0`).waitFor({ timeout: 30_000 });
    assert.equal(await page.locator('html').getAttribute('data-same'), 'yes');
    assert.ok(await page.locator('#follows').isVisible());
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('click selects a car', async () => {
    await settled();
    const page = await explorer.visit('/dag');
    // The last drawn element is on top.
    const picked = page.locator('#picture a.vertex').last();
    const [, place, lane] = (await picked.locator('title').textContent()).match(/^Car (\d+), Validator (\d+): /);
    const id = await picked.getAttribute('id');
    await picked.click();
    await page.waitForURL(/pick=0x[0-9a-f]{64}$/);
    const panel = page.locator('#fact');
    assert.equal(await fact(panel, 'Proposed by').innerText(), `validator ${lane}`);
    assert.equal(await fact(panel, 'Position in lane').innerText(), place);
    assert.match(await fact(panel, 'Digest').innerText(), new RegExp(`^0x${id.slice(1)}`));
    assert.equal(await page.locator('#picture .chosen').getAttribute('id'), id);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('keyboard selects a cut', async () => {
    const { slots } = await settled();
    const [before, last] = slots.slice(-2);
    const page = await explorer.visit('/dag');
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.locator(`#s${Number(last.round)}-0`).focus();
    const near = page.locator('#near');
    await until('what has the focus to be said', async () => (await near.innerText()).startsWith(`Slot ${Number(last.round)}, `));
    await page.keyboard.press('ArrowLeft');
    const id = `s${Number(before.round)}-0`;
    assert.equal(await focused(), id, 'the cut before');
    await until('the other to be said', async () => (await near.innerText()).startsWith(`Slot ${Number(before.round)}, `));
    await page.keyboard.press('Enter');
    await page.waitForURL(({ search }) => search.endsWith(`pick=${Number(before.round)}.0`));
    const panel = page.locator('#fact');
    assert.equal(await fact(panel, 'Leader').innerText(), `validator ${Number(before.validator)}`);
    assert.equal(await fact(panel, 'Slot').innerText(), String(Number(before.round)));
    assert.equal(await fact(panel, 'Verdict').innerText(), 'committed');
    const rule = await fact(panel, 'Rule').innerText();
    assert.ok(rule.includes(before.why) && !rule.includes("rule of the engine"), rule);
    assert.equal(await focused(), id, 'it keeps the focus');
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('voters and holders are named and marked', async () => {
    const held = await until('a car to be proven available', async () => (await settled()).cars.findLast(({ holders }) => holders));
    const { slots } = await settled();
    for (const { why, voters, confirmers } of slots) {
      const [signers, least] = why.startsWith('fast') ? [voters, 4] : [confirmers, 3];
      assert.ok(signers?.length >= least, `${why}: ${signers}`);
    }
    const names = (validators) => validators.map((validator) => `validator ${Number(validator)}`).join(' ');
    const { round, voters = [], confirmers = [] } = slots.at(-1);
    let page = await explorer.visit(`/dag?round=${Number(round)}&pick=${Number(round)}.0`);
    const panel = () => page.locator('#fact');
    const signs = (of) => page.locator(`#picture .sign.${of}`).count();
    if (voters.length > 0) {
      const votes = await fact(panel(), 'Votes').innerText();
      assert.equal(votes, `${voters.length} of 4 validators, a quorum is 3: ${names(voters)}`);
    }
    if (confirmers.length > 0) {
      const confirmations = await fact(panel(), 'Confirmations').innerText();
      assert.equal(confirmations, `${confirmers.length} of 4 validators, a quorum is 3: ${names(confirmers)}`);
    }
    assert.deepEqual([await signs('voter'), await signs('certificate')], [voters.length, confirmers.length]);
    await page.locator('#rounds summary').click();
    const signers = voters.length > 0 ? voters : confirmers;
    assert.ok((await page.locator('#table').innerText()).includes(signers.map((validator) => `v${Number(validator)}`).join(' ')));
    assert.deepEqual(page.problems, []);
    await close(page);

    const { digest, author, holders } = held;
    page = await explorer.visit('/dag');
    // Its round is its position in its lane. The picture knows the column of the slot.
    const href = await page.locator(`#v${digest.slice(2, 10)}`).getAttribute('href');
    await close(page);
    page = await explorer.visit(href);
    assert.equal(await fact(panel(), 'Held by').innerText(), `${holders.length} of 4 validators: ${names(holders)}`);
    assert.equal(await signs('voter'), holders.filter((holder) => holder !== author).length);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('block page links to its cuts', async () => {
    const { result: ordering } = await node.call('corniche_getOrdering', '0x1');
    const [first, last] = [ordering.firstCommit, ordering.lastCommit].map(Number);
    const page = await explorer.visit('/block/1');
    const block = page.locator('#block');
    assert.equal(await fact(block, 'Leader').innerText(), `validator ${Number(ordering.leader)}`);
    // A commit corresponds to a slot.
    assert.equal(await fact(block, 'Slots').innerText(), first === last ? `${first}` : `${first} to ${last}`);
    const { result } = await node.call('corniche_getDag', ordering.lastCommit, ordering.lastCommit);
    const [led] = result.slots;
    if (led.why.endsWith('in view 0')) assert.equal(led.validator, ordering.leader, 'nobody took its place');
    await fact(block, 'Slots').getByRole('link').last().click();
    await page.waitForURL(({ search }) => search.endsWith(`pick=${last}.0`));
    const panel = page.locator('#fact');
    assert.equal(await fact(panel, 'Leader').innerText(), `validator ${Number(led.validator)}`);
    assert.equal(await fact(panel, 'Commit').innerText(), `${last}`);
    assert.equal((await fact(panel, 'Block').innerText()).trim(), '1');
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('works without JavaScript', async () => {
    await areWhole(explorer, paths);
    const { slots } = await settled();
    const last = Number(slots.at(-1).round);
    // The page shows 24 slots.
    const { cars } = await (await fetch(`${network.explorer}/api/v1/dag?from=${Math.max(1, last - 23)}&to=${last}`)).json();
    const page = await explorer.visit('/dag', { script: false });
    await page.locator('#rounds summary').click();
    const table = await page.locator('#table').innerText();
    const { round, validator, why } = slots.at(-1);
    const lines = cars.map((one) => `Car ${Number(one.round)}, Validator ${Number(one.author)}`);
    for (const words of [`v${Number(validator)}, committed: ${why}`, ...lines]) {
      assert.ok(table.includes(words), `${words} in ${table}`);
    }
    await page.locator(`#s${Number(round)}-0 .badge`).click();
    await page.waitForURL(({ search }) => search.endsWith(`pick=${Number(round)}.0`));
    assert.equal(await fact(page.locator('#fact'), 'Leader').innerText(), `validator ${Number(validator)}`);
    await close(page);
  });
});
