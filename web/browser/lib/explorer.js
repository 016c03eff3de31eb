// The explorer's pages in Chromium. A page here notes what a person would not see: errors of scripts, what the security policy refused,
// and how much was transferred.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

export const executablePath = process.env.CHROMIUM || find('chromium', 'chromium-browser', 'google-chrome');

// Tests that were left out would look like tests that passed.
if (!executablePath || !existsSync(executablePath)) {
  const where = executablePath ? `at ${executablePath}, which CHROMIUM names` : 'on the path';
  throw new Error(`there is no Chromium ${where}: install one, for instance the package chromium, or set CHROMIUM to its path`);
}

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 375, height: 740 };

/** The most bytes that a page and all it loads may take. */
const MOST_BYTES = 100_000;

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Explorer {
  /** A browser that ends with the test, looking at an explorer. */
  static async open(t, url) {
    const browser = await chromium.launch({ executablePath });
    t.after(() => browser.close());
    return new Explorer(browser, url);
  }

  constructor(browser, url) {
    this.browser = browser;
    this.url = url;
  }

  /** A page; `script: false` reads it as somebody without JavaScript does. `wallet` answers as a wallet that was put into the page would. */
  async visit(path, { viewport = DESKTOP, script = true, wallet, colorScheme = 'light' } = {}) {
    const context = await this.browser.newContext({ viewport, javaScriptEnabled: script, baseURL: this.url, colorScheme });
    const page = await context.newPage();
    page.problems = [];
    page.bodies = [];
    // Chromium also calls it an error that there is no such page. Whether there is to be one, `answer` tells.
    const address = new URL(path, this.url).href;
    const isOfStatus = (message) => message.text().startsWith('Failed to load resource') && message.location().url === address;
    page.on('console', (message) => message.type() === 'error' && !isOfStatus(message) && page.problems.push(message.text()));
    page.on('pageerror', (error) => page.problems.push(String(error)));
    page.on('dialog', (dialog) => {
      page.problems.push(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    page.on('response', (response) => {
      // A stream of events has no end. From here on the page is told what happens.
      if (response.url().endsWith('/live')) { page.listens = true; return; }
      // As transferred. Of what redirects or was broken off there is no body.
      page.bodies.push(response.request().sizes().then(({ responseBodySize }) => responseBodySize, () => 0));
    });
    if (wallet) {
      // Of an error that is thrown across, the code would be lost.
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

/** What holds of every page: nothing went wrong, it is small, it fits, and it can be used by everybody. */
export async function isSound(page) {
  const where = page.url();
  assert.deepEqual(page.problems, [], where);
  // Bodies are told after the page is there.
  const bytes = (await Promise.all(page.bodies)).reduce((sum, length) => sum + length, 0);
  assert.ok(bytes < MOST_BYTES, `${where}: ${bytes} bytes`);
  const { width } = page.viewportSize();
  const needed = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(needed <= width, `${where} is ${needed} wide, the window ${width}`);
  // In a world of its own, where the page's policy does not reach.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3).join(' | ')}`);
  assert.deepEqual(told, [], where);
}

/** Pages at these paths are sound: at a desk, on a phone, in the dark. */
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

/** Pages at these paths say what they have to say without a script. */
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

/** By the keyboard one comes from a page's beginning to its end, and sees all the way where one is. */
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

/** Rows of a page's table by their columns' names: of what has a value in full, that; of everything else, what is said. */
export const rows = (page) => page.locator('main tbody tr').evaluateAll((all) => all.map((row) => {
  const cells = [...row.querySelectorAll('td')].map((cell) => [cell.dataset.column, cell.querySelector('.value')?.dataset.value ?? cell.innerText.trim()]);
  return Object.fromEntries(cells);
}));

/** Closes a page, and the context it had to itself. */
export const close = (page) => page.context().close();

function find(...names) {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}
