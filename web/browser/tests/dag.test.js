// The script of the DAG page with a simulated clock and network: how often it polls, and when it does not.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { runInNewContext } from 'node:vm';

const script = readFileSync(new URL('../../src/assets/dag.js', import.meta.url), 'utf8');

/** Placeholder for elements that these tests do not check. */
const thing = (own = {}) => ({
  dataset: {},
  childNodes: [],
  contains: () => false,
  addEventListener() {},
  replaceChildren() {},
  querySelector: () => null,
  querySelectorAll: () => [],
  getBoundingClientRect: () => ({ x: 0 }),
  ...own,
});

/** Opens the page in follow mode; `calm` is a reader who prefers reduced motion. */
function open({ calm = false } = {}) {
  const page = { asked: [], heard: {}, alarms: [], now: 0, hidden: false, answers: true };
  const dag = thing({
    addEventListener: (name, hear) => { page.heard[`dag ${name}`] = hear; },
    dataset: { first: '1', last: '2', oldest: '1', newest: '2', follows: 'yes' },
  });
  const document = thing({
    documentElement: { lang: 'en' },
    getElementById: (id) => (id === 'dag' ? dag : thing()),
    addEventListener: (name, hear) => { page.heard[name] = hear; },
  });
  Object.defineProperty(document, 'hidden', { get: () => page.hidden });
  const fetch = async (url) => {
    page.asked.push([page.now, url]);
    return { ok: page.answers, text: async () => '' };
  };
  const setTimeout = (ring, ms) => page.alarms.push([page.now + ms, ring]);
  const DOMParser = class { parseFromString() { return document; } };
  const nothing = () => {};
  runInNewContext(script, {
    document, fetch, setTimeout, DOMParser, addEventListener: nothing, history: { pushState: nothing, replaceState: nothing },
    matchMedia: () => ({ matches: calm }), AbortSignal, location: { assign: (url) => { page.left = url; } },
  });
  page.tick = (kind = 'dag') => page.heard.tick({ detail: { kind, round: 3 } });
  /** Advances the clock by this many milliseconds and runs everything that is due. */
  page.pass = async (ms) => {
    for (const end = page.now + ms; page.now < end; page.now += 10) {
      for (let turns = 0; turns < 20; turns += 1) await null;
      const rings = page.alarms.filter(([at]) => at <= page.now);
      page.alarms = page.alarms.filter(([at]) => at > page.now);
      for (const [, ring] of rings) ring();
    }
  };
  return page;
}

test('constant events cause one fetch per second', async () => {
  const page = open();
  for (let at = 0; at < 10_000; at += 50) {
    page.tick();
    await page.pass(50);
  }
  assert.ok(page.asked.length >= 8 && page.asked.length <= 10, `${page.asked.length} times in ten seconds`);
});

test('reduced motion fetches every five seconds', async () => {
  const page = open({ calm: true });
  for (let at = 0; at < 20_000; at += 50) {
    page.tick();
    await page.pass(50);
  }
  assert.ok(page.asked.length >= 3 && page.asked.length <= 5, `${page.asked.length} times in twenty seconds`);
});

test('event during the pause causes one later fetch', async () => {
  const page = open();
  page.tick();
  await page.pass(100);
  page.tick();
  await page.pass(20_000);
  assert.equal(page.asked.length, 2);
  page.tick('block');
  await page.pass(5_000);
  assert.equal(page.asked.length, 2);
});

test('busy server is retried with backoff', async () => {
  const page = open();
  page.answers = false;
  page.tick();
  await page.pass(125_000);
  const pauses = page.asked.slice(1).map(([at], number) => Math.round((at - page.asked[number][0]) / 1_000));
  assert.deepEqual(pauses, [2, 4, 8, 16, 30, 30, 30]);
  page.answers = true;
  await page.pass(60_000);
  assert.equal(page.asked.length, 9, 'one more, which was answered');
});

test('failed fetch falls back to navigation', async () => {
  for (const answers of [true, false]) {
    const page = open();
    page.answers = answers;
    const link = { getAttribute: () => '/dag?round=1' };
    page.heard['dag click']({ target: { closest: () => link }, button: 0, preventDefault() {} });
    await page.pass(1_000);
    assert.deepEqual([page.asked.length, page.left], [1, answers ? undefined : '/dag?round=1']);
  }
});

test('hidden page fetches nothing', async () => {
  const page = open();
  page.tick();
  await page.pass(100);
  page.tick();
  page.hidden = true;
  page.tick();
  await page.pass(5_000);
  assert.equal(page.asked.length, 1);
});
