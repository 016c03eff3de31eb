// The script for live pages with a simulated clock and network: when a part is redrawn, and when it is not.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Stage } from '../lib/stage.js';

const part = (id, text) => `<div id="${id}" data-live="${id}"><a href="/${id}">${text}</a></div>`;
const drawn = (text) => part('one', text) + part('two', text);
const row = (state) => `<div id="transaction" data-live="transaction"><dl><div><dt>Status</dt><dd><span class="tag is-${state}">${state}</span></dd></div></dl></div>`;

test('live pages', { timeout: 120_000 }, async (t) => {
  const stage = await Stage.open(t);
  const open = async (t, path = '/', body = drawn('old')) => {
    const page = await stage.page(t, `http://explorer.test${path}`, body, ['app.js']);
    page.tick = (tick = { kind: 'certified', number: 1 }) => page.evaluate((tick) => {
      window.stage.streams.at(-1).onmessage({ data: JSON.stringify(tick) });
    }, tick);
    page.says = (id) => page.locator(`#${id}`).innerText();
    return page;
  };

  await t.test('home page updates at most twice a second', async (t) => {
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

  await t.test('old head is announced when its time has passed by the reader\'s clock', async (t) => {
    const notice = (until) => `<div id="home" data-live="home"><p id="stale" data-stale-ms="${until}" hidden>old</p></div>`;
    const page = await open(t, '/', notice(180_000));
    const isShown = () => page.locator('#stale').isVisible();
    await page.pass(180_000);
    assert.equal(await isShown(), false);
    await page.pass(1);
    assert.equal(await isShown(), true);
    // A new block ends it, for three minutes.
    await page.answers(200, notice(360_000));
    await page.tick();
    await page.pass(0);
    assert.equal(await isShown(), false);
    await page.pass(180_000);
    assert.equal(await isShown(), true);
    assert.deepEqual(page.problems, []);
  });

  await t.test('reduced motion updates every five seconds', async (t) => {
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

  await t.test('failed copy shows no success', async (t) => {
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

  await t.test('slash key focuses the search', async (t) => {
    const page = await open(t, '/', '<input id="q">');
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.keyboard.press('Control+/');
    assert.equal(await focused(), '');
    await page.keyboard.press('/');
    assert.equal(await focused(), 'q');
  });

  await t.test('busy or unreachable server is retried with backoff', async (t) => {
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

  await t.test('request times out', async (t) => {
    const page = await open(t);
    await page.answers(-1);
    await page.tick();
    await page.pass(29_000);
    await page.answers(200, drawn('new'));
    assert.equal(await page.says('one'), 'old');
    await page.pass(3_000);
    assert.equal(await page.says('one'), 'new');
  });

  await t.test('events do not shorten the backoff', async (t) => {
    const page = await open(t);
    await page.answers(429);
    for (let at = 0; at < 30_000; at += 500) {
      await page.tick();
      await page.pass(500);
    }
    assert.equal((await page.asked()).length, 5);
  });

  await t.test('missing and final pages are not polled', async (t) => {
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

  await t.test('focused part updates after the focus leaves', async (t) => {
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

  await t.test('fully focused page fetches nothing', async (t) => {
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

  await t.test('selected or pressed part is not replaced', async (t) => {
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

  await t.test('hidden page stops and resumes', async (t) => {
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

  await t.test('event stream reconnects with backoff', async (t) => {
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

  await t.test('status change is announced once', async (t) => {
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
