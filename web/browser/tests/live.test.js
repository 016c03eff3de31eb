// The script for live pages with a simulated clock and network: when a part is redrawn, and when it is not.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Stage } from '../lib/stage.js';

const part = (id, text) => `<div id="${id}" data-live="${id}"><a href="/${id}">${text}</a></div>`;
const drawn = (text) => part('one', text) + part('two', text);
const row = (state) => `<div id="transaction" data-live="transaction"><dl><div><dt>Status</dt><dd><span class="tag">${state}</span></dd></div></dl></div>`;

test('pages that are live', { timeout: 120_000 }, async (t) => {
  const stage = await Stage.open(t);
  const open = async (t, path = '/', body = drawn('old')) => {
    const page = await stage.page(t, `http://explorer.test${path}`, body, ['app.js']);
    page.tick = (tick = { kind: 'certified', number: 1 }) => page.evaluate((tick) => {
      window.stage.streams.at(-1).onmessage({ data: JSON.stringify(tick) });
    }, tick);
    page.says = (id) => page.locator(`#${id}`).innerText();
    return page;
  };

  await t.test('the home page is drawn again at most twice a second', async (t) => {
    const page = await open(t);
    await page.answers(200, drawn('new'));
    for (let at = 0; at < 3_000; at += 50) {
      await page.tick();
      await page.pass(50);
    }
    assert.equal(await page.says('one'), 'new');
    const asked = (await page.asked()).length;
    assert.ok(asked >= 6 && asked <= 7, `${asked} times in three seconds`);
    assert.deepEqual(page.problems, []);
  });

  await t.test('for a reader who asked for less motion it is drawn again every five seconds', async (t) => {
    const page = await open(t);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.reload();
    await page.answers(200, drawn('new'));
    for (let at = 0; at < 20_000; at += 500) {
      await page.tick();
      await page.pass(500);
    }
    assert.deepEqual((await page.asked()).map(([at]) => at), [0, 5_000, 10_000, 15_000, 20_000]);
  });

  await t.test('a value that the browser refuses to copy is not called copied', async (t) => {
    const page = await open(t, '/', '<button class="copy" data-copy="1">Copy</button>');
    await page.evaluate(() => {
      Object.defineProperty(navigator, 'clipboard', { value: { writeText: async () => { throw new Error('no'); } } });
      document.querySelector('button').hidden = false;
    });
    await page.locator('button').click();
    await page.pass(0);
    assert.equal(await page.locator('.copy.done').count(), 0);
    assert.deepEqual(page.problems, []);
  });

  await t.test('a key goes to the search, and with others it is the browser’s', async (t) => {
    const page = await open(t, '/', '<input id="q">');
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.keyboard.press('Control+/');
    assert.equal(await focused(), '');
    await page.keyboard.press('/');
    assert.equal(await focused(), 'q');
  });

  await t.test('a page whose server is busy or away asks again by itself, less and less often, until it is answered', async (t) => {
    for (const refusal of [0, 429, 503]) {
      const page = await open(t);
      await page.answers(refusal);
      await page.tick();
      await page.pass(120_000);
      const times = (await page.asked()).map(([at]) => at);
      assert.deepEqual(times, [0, 1_000, 3_000, 7_000, 15_000, 31_000, 61_000, 91_000], `after ${refusal}`);
      await page.answers(200, drawn('new'));
      await page.pass(30_000);
      assert.equal(await page.says('one'), 'new');
      const asked = (await page.asked()).length;
      await page.pass(600_000);
      assert.equal((await page.asked()).length, asked, 'nothing without news');
      // The next failure starts with a short pause again.
      await page.answers(refusal);
      await page.tick();
      await page.pass(1_000);
      assert.equal((await page.asked()).length, asked + 2);
      assert.deepEqual(page.problems, []);
    }
  });

  await t.test('a server that does not answer is not waited for forever', async (t) => {
    const page = await open(t);
    await page.answers(-1);
    await page.tick();
    await page.pass(29_000);
    await page.answers(200, drawn('new'));
    assert.equal(await page.says('one'), 'old');
    await page.pass(3_000);
    assert.equal(await page.says('one'), 'new');
  });

  await t.test('news do not cut the pause short', async (t) => {
    const page = await open(t);
    await page.answers(429);
    for (let at = 0; at < 30_000; at += 500) {
      await page.tick();
      await page.pass(500);
    }
    assert.equal((await page.asked()).length, 5);
  });

  await t.test('what was forgotten, and what is final, is not asked for again', async (t) => {
    for (const [status, text] of [[404, ''], [200, drawn('new').replaceAll(/ data-live="\w+"/g, '')]]) {
      const page = await open(t);
      await page.answers(status, text);
      await page.tick();
      await page.pass(5_000);
      await page.tick();
      await page.pass(60_000);
      assert.equal((await page.asked()).length, 1, `${status}`);
    }
  });

  await t.test('a part that has the focus is left alone, and drawn once the focus is elsewhere', async (t) => {
    const page = await open(t);
    await page.answers(200, drawn('new'));
    await page.locator('#one a').focus();
    await page.tick();
    await page.pass(10_000);
    assert.deepEqual([await page.says('one'), await page.says('two')], ['old', 'new']);
    await page.locator('#two a').focus();
    await page.pass(1_000);
    assert.equal(await page.says('one'), 'new');
    assert.equal((await page.asked()).length, 2);
    // No update is pending any more.
    await page.locator('#one a').focus();
    await page.locator('#one a').blur();
    await page.pass(10_000);
    assert.equal((await page.asked()).length, 2);
  });

  await t.test('where all there is has the focus nothing is fetched until it is left', async (t) => {
    const page = await open(t, '/blocks', part('one', 'old'));
    await page.answers(200, part('one', 'new'));
    await page.locator('#one a').focus();
    await page.tick();
    await page.pass(10_000);
    assert.equal((await page.asked()).length, 0);
    await page.locator('#one a').blur();
    await page.pass(10);
    assert.equal(await page.says('one'), 'new');
  });

  await t.test('a part in which text is selected, or pressed, is left alone until it no longer is', async (t) => {
    const page = await open(t);
    await page.answers(200, drawn('new'));
    await page.evaluate(() => getSelection().selectAllChildren(document.querySelector('#one')));
    await page.tick();
    await page.pass(10_000);
    assert.deepEqual([await page.says('one'), await page.says('two')], ['old', 'new']);
    await page.evaluate(() => getSelection().removeAllRanges());
    await page.pass(1_000);
    assert.equal(await page.says('one'), 'new');

    await page.answers(200, drawn('newer'));
    const { x, y, width, height } = await page.locator('#two').boundingBox();
    await page.mouse.move(x + width - 1, y + height / 2);
    await page.mouse.down();
    await page.tick();
    await page.pass(10_000);
    assert.deepEqual([await page.says('one'), await page.says('two')], ['newer', 'new']);
    await page.mouse.up();
    await page.pass(1_000);
    assert.equal(await page.says('two'), 'newer');
    assert.deepEqual(page.problems, []);
  });

  await t.test('a page that nobody sees asks for nothing and listens to nothing, and is drawn when it is seen', async (t) => {
    const page = await open(t);
    await page.answers(503);
    await page.tick();
    await page.pass(0);
    await page.hides(true);
    await page.pass(600_000);
    assert.equal((await page.asked()).length, 1);
    assert.deepEqual(await page.evaluate(() => window.stage.streams.map(({ closed }) => closed)), [true]);
    await page.answers(200, drawn('new'));
    await page.hides(false);
    await page.pass(0);
    assert.equal(await page.says('one'), 'new');
    assert.equal(await page.evaluate(() => window.stage.streams.length), 2);
  });

  await t.test('a stream that breaks off is opened again, less and less often, and what came meanwhile is made up for', async (t) => {
    const page = await open(t);
    await page.answers(200, drawn('new'));
    for (let count = 0; count < 9; count += 1) {
      await page.evaluate(() => window.stage.streams.at(-1).onerror());
      await page.pass(30_000);
    }
    const began = await page.evaluate(() => window.stage.streams.map(({ began }) => began));
    const waited = began.slice(1).map((at, number) => at - number * 30_000);
    assert.deepEqual(waited, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    assert.equal((await page.asked()).length, 0);
    await page.evaluate(() => window.stage.streams.at(-1).onopen());
    await page.pass(1_000);
    assert.equal(await page.says('one'), 'new');
    await page.evaluate(() => window.stage.streams.at(-1).onerror());
    await page.pass(1_000);
    assert.equal(await page.evaluate(() => window.stage.streams.length), began.length + 1, 'at once again');
  });

  await t.test("a transaction's state is read out when it changes, once; a home page is not read out", async (t) => {
    const page = await open(t, '/tx/0x12', row('pending'));
    const heard = page.locator('main > [role="status"]');
    assert.equal(await heard.textContent(), '');
    await page.evaluate(() => {
      window.read = [];
      const spoken = document.querySelector('main > [role="status"]');
      new MutationObserver(() => window.read.push(spoken.textContent)).observe(spoken, { childList: true });
    });
    for (const state of ['pending', 'executed', 'executed', 'certified']) {
      await page.answers(200, row(state));
      await page.tick();
      await page.pass(60_000);
    }
    assert.deepEqual(await page.evaluate(() => window.read), ['Status: executed', 'Status: certified']);
    const home = await open(t);
    assert.equal(await home.locator('[role="status"], [aria-live]').count(), 0);
  });
});
