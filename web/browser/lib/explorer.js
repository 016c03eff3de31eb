// Opens the explorer's pages in Chromium. A page records problems that a person would not see: script errors,
// violations of the Content-Security-Policy, and the number of transferred bytes.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

export const executablePath = process.env.CHROMIUM || find('chromium', 'chromium-browser', 'google-chrome');

// Skipped tests would look like passed ones.
if (!executablePath || !existsSync(executablePath)) {
  const where = executablePath ? `at ${executablePath}, which CHROMIUM names` : 'on the path';
  throw new Error(`there is no Chromium ${where}: install one, for instance the package chromium, or set CHROMIUM to its path`);
}

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 375, height: 740 };

/** Most bytes of a page with all its resources. */
const MAX_BYTES = 100_000;

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Explorer {
  /** Opens an explorer in a browser that is closed after the test. */
  static async open(t, url) {
    const browser = await chromium.launch({ executablePath });
    t.after(() => browser.close());
    return new Explorer(browser, url);
  }

  constructor(browser, url) {
    this.browser = browser;
    this.url = url;
  }

  /** Opens a page. `script: false` disables JavaScript; `wallet` acts as an injected wallet. */
  async visit(path, { viewport = DESKTOP, script = true, wallet, colorScheme = 'light' } = {}) {
    const context = await this.browser.newContext({ viewport, javaScriptEnabled: script, baseURL: this.url, colorScheme });
    const page = await context.newPage();
    page.problems = [];
    page.bodies = [];
    // Chromium also logs an HTTP error status as an error. The test checks the status in `answer`.
    const address = new URL(path, this.url).href;
    const isOfStatus = (message) => message.text().startsWith('Failed to load resource') && message.location().url === address;
    page.on('console', (message) => message.type() === 'error' && !isOfStatus(message) && page.problems.push(message.text()));
    page.on('pageerror', (error) => page.problems.push(String(error)));
    page.on('dialog', (dialog) => {
      page.problems.push(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    page.on('response', (response) => {
      // An event stream has no end. From now on the page receives events.
      if (response.url().endsWith('/live')) { page.listens = true; return; }
      // Transferred size. Redirects and aborted responses have no body.
      page.bodies.push(response.request().sizes().then(({ responseBodySize }) => responseBodySize, () => 0));
    });
    if (wallet) {
      // A thrown error would lose its code on the way to the page.
      await page.exposeFunction('askWallet', async (request) => {
        try { return { result: await wallet.request(request) }; } catch ({ code, message }) { return { error: { code, message } }; }
      });
      await page.addInitScript(() => {
        const request = async (asked) => {
          const { error, result } = await window.askWallet(asked);
          if (error) throw Object.assign(new Error(error.message), error);
          return result;
        };
        window.ethereum = { request, on() {} };
      });
    }
    page.answer = await page.goto(path);
    return page;
  }
}

/** Checks every page: no problems, small, no horizontal overflow, accessible. */
export async function isSound(page) {
  const where = page.url();
  assert.deepEqual(page.problems, [], where);
  // Sizes of bodies are reported after the page has loaded.
  const bytes = (await Promise.all(page.bodies)).reduce((sum, length) => sum + length, 0);
  assert.ok(bytes < MAX_BYTES, `${where}: ${bytes} bytes`);
  const { width } = page.viewportSize();
  const needed = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(needed <= width, `${where} is ${needed} wide, the window ${width}`);
  // Runs in an isolated world, to which the page's policy does not apply.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3).join(' | ')}`);
  assert.deepEqual(told, [], where);
}

/** Checks the pages at these paths with a desktop window, a phone and dark colours. */
export async function areSound(explorer, paths) {
  for (const path of paths) {
    const looks = [{}, { viewport: PHONE }, { colorScheme: 'dark' }];
    await Promise.all(looks.map(async (look) => {
      const page = await explorer.visit(path, look);
      assert.equal(page.answer.status(), 200, path);
      await isSound(page);
      await close(page);
    }));
  }
}

/** Checks that the pages at these paths are complete without a script. */
export async function areWhole(explorer, paths) {
  for (const path of paths) {
    const page = await explorer.visit(path, { script: false });
    assert.equal(page.answer.status(), 200, path);
    assert.ok(await page.locator('main h1').innerText(), path);
    const text = await page.locator('main').innerText();
    assert.ok(text.length > 80, `${path} says no more than ${text}`);
    assert.doesNotMatch(text, /\b(undefined|NaN)\b|\[object/, path);
    assert.equal(await page.locator('[hidden]').filter({ visible: true }).count(), 0);
    await close(page);
  }
}

/** Checks that the Tab key moves through the whole page, and that the focus is always visible. */
export async function canBeWalked(page) {
  for (let steps = 0; steps < 500; steps += 1) {
    await page.keyboard.press('Tab');
    const here = await page.evaluate(() => {
      const here = document.activeElement;
      if (!here || here === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(here);
      const isDrawnThicker = [...here.querySelectorAll('*')].some((part) => parseFloat(getComputedStyle(part).strokeWidth) >= 3);
      return { html: here.outerHTML.slice(0, 200), isSeen: isDrawnThicker || (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) };
    });
    if (here === null) return;
    assert.ok(here.isSeen, `${page.url()}: ${here.html}`);
  }
  assert.fail(`${page.url()} has no end`);
}

/** Returns the rows of a page's table by column name: the full value if a cell has one, otherwise its text. */
export const rows = (page) => page.locator('main tbody tr').evaluateAll((all) => all.map((row) => {
  const cells = [...row.querySelectorAll('td')].map((cell) => [cell.dataset.column, cell.querySelector('.value')?.dataset.value ?? cell.innerText.trim()]);
  return Object.fromEntries(cells);
}));

/** Closes a page and its context. */
export const close = (page) => page.context().close();

function find(...names) {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}
