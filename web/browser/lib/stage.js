// Runs the explorer's scripts in Chromium on simulated pages with a simulated clock, without node and explorer. The
// test provides the responses to requests, the events and the passing of time.

import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { executablePath } from './explorer.js';

const asset = (name) => readFileSync(new URL(`../../src/assets/${name}`, import.meta.url), 'utf8');

export class Stage {
  /** Opens a browser that is closed after the test. */
  static async open(t) {
    const browser = await chromium.launch({ executablePath });
    t.after(() => browser.close());
    return new Stage(await browser.newContext());
  }

  constructor(context) {
    this.context = context;
  }

  /** Opens a page at this URL with these scripts. `prepare` runs in it before them, with the argument `given`. */
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
    /** Advances the clock by this many milliseconds and runs everything that is due. */
    page.pass = (ms) => page.evaluate((ms) => window.stage.pass(ms), ms);
    /** Returns the requests with their times. */
    page.asked = () => page.evaluate(() => window.stage.asked);
    /** Sets the response to all requests: a status (0: connection refused, -1: no response) and a text. */
    page.answers = (status, text = '') => page.evaluate(([status, text]) => { window.stage.answer = { status, text }; }, [status, text]);
    /** Hides the page, or shows it again. */
    page.hides = (hidden) => page.evaluate((hidden) => window.stage.hide(hidden), hidden);
    return page;
  }
}

/** Runs in the page before its scripts: replaces clock, network and visibility. */
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
  // Random delays take their maximum.
  Math.random = () => 1;
  stage.pass = async (ms) => {
    const end = stage.now + ms;
    for (;;) {
      // Events of the page are dispatched between two turns of the browser's event loop.
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
    // A real Response would need additional turns.
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
