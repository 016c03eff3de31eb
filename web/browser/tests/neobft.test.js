// The ordering page on a live network under NeoBFT: the packets of a sequencer, and the epoch of the next one.

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

/** Place of a slot in its sequencer's sequence, from the rule of its verdict. */
const place = ({ why }) => {
  const parts = why.match(/^(packet|gap at) (\d+) of epoch (\d+)$/);
  assert.ok(parts, why);
  return { number: Number(parts[2]), epoch: Number(parts[3]) };
};

test('explorer under NeoBFT', { timeout: 900_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine: 'neobft', sequencers: 2, explorer: true });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const pay = async () => node.receipt(await node.wallet(owner).sendTransaction({ to: friend.address, value: 1n }));
  const read = async (path) => (await fetch(`${network.explorer}/api/v1/${path}`)).json();
  const verdicts = ({ rounds }) => rounds.flatMap(({ slots }) => slots);

  /** Waits until the explorer shows a block as certified. */
  const certified = ({ transactionHash }) => until('the transaction to be certified', async () => {
    const page = await fetch(`${network.explorer}/tx/${transactionHash}`);
    return page.ok && (await page.text()).includes('is-certified');
  });

  /** Waits until the explorer has the slot of a block's last commit, and returns its number. */
  const slotOf = (block) => until(`the slot of block ${block}`, async () => {
    const { lastRound } = await read(`blocks/${block}`);
    return lastRound ?? undefined;
  });

  let paid;
  let slot;

  await step('catches up with the node', async () => {
    for (let count = 0; count < 3; count += 1) paid = await pay();
    await certified(paid);
    slot = await slotOf(paid.blockNumber);
    const dag = await until('the verdict on the slot', async () => {
      const dag = await read(`dag?from=${slot}&to=${slot}`);
      return verdicts(dag).length > 0 && dag;
    });
    assert.equal(dag.engine, 'neobft');
    const { result } = await node.call('corniche_getDag', `0x${slot.toString(16)}`, `0x${slot.toString(16)}`);
    assert.deepEqual(verdicts(dag), result.slots);
    const [verdict] = result.slots;
    assert.deepEqual([verdict.status, Number(verdict.rank), Number(verdict.commit)], ['committed', 0, slot]);
    const request = result.vertices.find(({ digest }) => digest === verdict.digest);
    assert.equal(request.author, verdict.validator);
    assert.ok(Number(request.batchBytes) > 0 && request.batchDigest, 'it carries the payment');
    assert.deepEqual(request.parents, []);
  });

  const explorer = await Explorer.open(t, network.explorer);

  /** The row of a slot on a page, as cells by the name of their column. */
  const rowOf = async (page, number) => {
    const link = page.locator(`a[href$="pick=${number}.0#facts"]`);
    const cells = page.locator('#table tr').filter({ has: link }).locator('td');
    return Object.fromEntries(await cells.evaluateAll((all) => all.map((cell) => [cell.dataset.column, cell.innerText.trim()])));
  };

  await step('pages pass on desktop, on a phone and in the dark theme', async () => {
    const picked = `/dag?round=${slot}&pick=${slot}.0`;
    await areSound(explorer, ['/', '/dag', picked, '/blocks', `/block/${paid.blockNumber}`]);
    await areWhole(explorer, ['/dag', picked, `/block/${paid.blockNumber}`]);
  });

  await step('table and picture show the slots', async () => {
    const page = await explorer.visit(`/dag?round=${slot}`);
    assert.equal(await page.locator('h1').innerText(), 'Packet log');
    const [first, last] = await page.locator('#dag').evaluate(({ dataset }) => [Number(dataset.first), Number(dataset.last)]);
    const rows = page.locator('#table tbody tr:not(.epoch)');
    assert.equal(await rows.count(), last - first + 1);
    const [verdict] = verdicts(await read(`dag?from=${slot}&to=${slot}`));
    const { number, epoch } = place(verdict);
    const row = await rowOf(page, slot);
    assert.deepEqual([row.Slot, row.Epoch, row.Number].map((text) => Number(text.replaceAll(/\D/g, ''))), [slot, epoch, number]);
    assert.equal(row['Proposed by'], `validator ${Number(verdict.validator)}`);
    assert.match(row.Content, new RegExp(`B, block ${paid.blockNumber}$`));
    assert.equal(row.Status, 'final');
    assert.match(row['Time to finality'], /\d/);
    const title = await page.locator(`#s${slot}-0 > title`).textContent();
    assert.ok(title.startsWith(`Slot ${slot}, final: number ${number} of epoch ${epoch}, validator ${Number(verdict.validator)}, `), title);
    assert.match(await fact(page.locator('#summary'), 'Packets').innerText(), /^\d+ final/);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('page updates live', async () => {
    const page = await explorer.visit('/dag');
    const newest = async () => Number(await page.locator('#dag').getAttribute('data-newest'));
    const before = await newest();
    // Reloading the page would remove this mark.
    await page.evaluate(() => { document.documentElement.dataset.same = 'yes'; });
    // An idle group orders clocks, so no payment is needed.
    await until('the page to have a newer slot', async () => (await newest()) > before);
    const shown = async () => (await fact(page.locator('#summary'), 'Slots').innerText()).split(' to ').at(-1).replaceAll(/\D/g, '');
    await until('the summary to name a newer slot', async () => Number(await shown()) > before);
    assert.equal(await page.locator('html').getAttribute('data-same'), 'yes');
    assert.ok(await page.locator('#follows').isVisible());
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('click and keyboard select a slot', async () => {
    const page = await explorer.visit(`/dag?round=${slot}`);
    const panel = page.locator('#fact');
    await page.locator(`#s${slot}-0`).click();
    await page.waitForURL(({ search }) => search.endsWith(`pick=${slot}.0`));
    assert.equal(await fact(panel, 'Commit').innerText(), `${slot}`);
    assert.equal((await fact(panel, 'Block').innerText()).trim(), `${paid.blockNumber}`);
    assert.match(await fact(panel, 'Rule').innerText(), /packet \d+ of epoch \d+.* – a quorum of validators/);
    assert.equal(await page.locator('#picture .chosen').getAttribute('id'), `s${slot}-0`);
    await page.locator(`#s${slot}-0`).focus();
    await page.keyboard.press('ArrowLeft');
    assert.equal(await page.evaluate(() => document.activeElement.id), `s${slot - 1}-0`);
    await page.keyboard.press('Enter');
    await page.waitForURL(({ search }) => search.endsWith(`pick=${slot - 1}.0`));
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('block page links to its slots', async () => {
    const page = await explorer.visit(`/block/${paid.blockNumber}`);
    await page.getByRole('link', { name: 'show in log' }).first().click();
    await page.waitForURL(({ search }) => /pick=\d+-0x[0-9a-f]{64}$/.test(search));
    assert.equal((await fact(page.locator('#fact'), 'Block').innerText()).trim(), `${paid.blockNumber}`);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('an epoch begins after the sequencer failed', async () => {
    const last = verdicts(await read('dag')).at(-1);
    const { epoch: before } = place(last);
    // Sequencer e mod 2 serves epoch e.
    const serving = network.sequencers[before % 2];
    serving.kill();
    await serving.gone();
    const later = await pay();
    await certified(later);
    const reached = await slotOf(later.blockNumber);
    const begins = await until('the first slot of the next epoch', async () => {
      // A response has at most 64 slots. The epoch begins at or before the slot of the payment.
      for (let from = Number(last.round); from <= reached; from += 64) {
        const found = verdicts(await read(`dag?from=${from}&to=${from + 63}`)).find((verdict) => place(verdict).epoch > before);
        if (found) return found;
      }
      return undefined;
    });
    const [number, { epoch }] = [Number(begins.round), place(begins)];
    const page = await explorer.visit(`/dag?round=${number}`);
    const heading = page.locator('#table tr.epoch', { hasText: `Epoch ${epoch} begins: the sequencer was replaced` });
    // Newest first: the epoch's first slot is directly above the heading.
    const above = await heading.evaluate((row) => row.previousElementSibling.querySelector('a').getAttribute('href'));
    assert.ok(above.endsWith(`pick=${number}.0#facts`), above);
    assert.ok((await page.locator('#picture path.epoch').count()) > 0);
    assert.match(await fact(page.locator('#summary'), 'Epochs').innerText(), /^\d+ to \d+$/);
    assert.equal((await rowOf(page, number)).Epoch, `${epoch}`);
    assert.deepEqual(page.problems, []);
    await close(page);
    await areSound(explorer, [`/dag?round=${number}`]);
  });
});
