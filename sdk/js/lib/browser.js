// Pages in a real browser: a local server and Chromium.

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { delimiter, extname, join } from 'node:path';
import { chromium } from 'playwright-core';

const browser = process.env.CHROMIUM ?? find('chromium', 'chromium-browser', 'google-chrome');

/** Reason why no browser is available, or false. */
export const missing = browser ? false : 'there is no Chromium: install one, or set CHROMIUM to its path';

const TYPES = { '': 'text/html', '.js': 'text/javascript', '.json': 'application/json', '.wasm': 'application/wasm' };

/** Opens the page of a site with these files, by path. Browser and server are stopped after the test. */
export async function open(t, files) {
  const server = createServer(({ url }, response) => {
    if (files[url] === undefined) return response.writeHead(404).end();
    return response.setHeader('content-type', TYPES[extname(url)] ?? 'application/octet-stream').end(files[url]);
  });
  server.listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return visit(t, `http://127.0.0.1:${server.address().port}/`);
}

/** Opens a page at any URL. `extension` is a script that runs before the page's own scripts. */
export async function visit(t, url, extension) {
  const running = await chromium.launch({ executablePath: browser });
  t.after(() => running.close());
  const page = await running.newPage();
  if (extension) await page.addInitScript(extension);
  await page.goto(url);
  return page;
}

function find(...names) {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}
