// Scripts of the explorer in Chromium, on pages made here and on a clock by hand: no node, no explorer. What a script fetches is answered by
// the test, what it listens to is told by the test, and time passes when the test says so.

import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { executablePath } from './explorer.js';

const asset = (name) => readFileSync(new URL(`../../src/assets/${name}`, import.meta.url), 'utf8');

export class Stage {
  /** A browser that ends with the test. */
  static async open(t) {
    const browser = await chromium.launch({ executablePath });
    t.after(() => browser.close());
    return new Stage(await browser.newContext());
  }

  constructor(context) {
    this.context = context;
  }

  /** A page at this address with these scripts of the explorer. `prepare` runs in it before them, with `given`. */
  async page(t, url, body, scripts, { prepare = () => {}, given } = {}) {
    const page = await this.context.newPage();
    t.after(() => page.close());
    page.problems = [];
    page.on('pageerror', (error) => page.problems.push(String(error)));
    await page.addInitScript(takeOver);
    await page.addInitScript(prepare, given);
    const tags = scripts.map((name) => `<script src="/assets/${name}" defer></script>`).join('');
    const html = `<!doctype html><html lang="en"><head><title>A page</title>${tags}</head><body><main>${body}</main></body></html>`;
    await page.route('**/*', (route) => {
      const [, name] = new URL(route.request().url()).pathname.match(/^\/assets\/(.+)$/) ?? [];
      return route.fulfill(name ? { contentType: 'text/javascript', body: asset(name) } : { contentType: 'text/html', body: html });
    });
    await page.goto(url);
    /** So many milliseconds later, everything done that was to be done by then. */
    page.pass = (ms) => page.evaluate((ms) => window.stage.pass(ms), ms);
    /** When what was fetched, by the clock. */
    page.asked = () => page.evaluate(() => window.stage.asked);
    /** From here on this is the answer to everything: a status, 0 being nobody there and -1 somebody who never answers, and a text. */
    page.answers = (status, text = '') => page.evaluate(([status, text]) => { window.stage.answer = { status, text }; }, [status, text]);
    /** The page is hidden, or seen again. */
    page.hides = (hidden) => page.evaluate((hidden) => window.stage.hide(hidden), hidden);
    return page;
  }
}

/** Runs in the page, before its scripts: takes the clock, the network and the window's being seen into our hands. */
function takeOver() {
  const stage = { now: 0, asked: [], answer: { status: 200, text: '' }, streams: [], hidden: false };
  window.stage = stage;

  const turn = window.setTimeout.bind(window);
  const alarms = new Map();
  let last = 0;
  window.setTimeout = (ring, ms = 0) => { alarms.set(last += 1, [stage.now + ms, ring]); return last; };
  window.clearTimeout = (alarm) => alarms.delete(alarm);
  window.setInterval = () => 0;
  Date.now = () => stage.now;
  AbortSignal.timeout = (ms) => {
    const end = new AbortController();
    window.setTimeout(() => end.abort(), ms);
    return end.signal;
  };
  // The longest that anything is put off by chance.
  Math.random = () => 1;
  stage.pass = async (ms) => {
    const end = stage.now + ms;
    for (;;) {
      // Events of the page come between two turns of the browser's own.
      await new Promise((resolve) => turn(resolve));
      const [alarm, [at, ring]] = [...alarms].sort(([, [one]], [, [other]]) => one - other)[0] ?? [0, [Infinity]];
      if (at > end) break;
      stage.now = Math.max(stage.now, at);
      alarms.delete(alarm);
      ring();
    }
    stage.now = end;
  };

  window.fetch = async (url, { signal } = {}) => {
    stage.asked.push([stage.now, new URL(url, location.href).pathname]);
    const { status, text } = stage.answer;
    if (status === -1) await new Promise((_, fail) => signal?.addEventListener('abort', () => fail(signal.reason)));
    if (status === 0) throw new TypeError('nobody there');
    // A Response of the browser's own would take turns of its own.
    return { ok: status === 200, status, text: async () => text, json: async () => JSON.parse(text) };
  };
  window.EventSource = class {
    constructor() { this.began = stage.now; stage.streams.push(this); }
    close() { this.closed = true; }
  };

  Object.defineProperty(Document.prototype, 'hidden', { get: () => stage.hidden });
  stage.hide = (hidden) => {
    stage.hidden = hidden;
    document.dispatchEvent(new Event('visibilitychange'));
  };
}
