// Follows docs/tutorial like a reader: every command in order, then the page in Chromium with a wallet.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { corniche } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { missing, visit } from '../lib/browser.js';
import { compile } from '../lib/package.js';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const KEY = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80';

test('the tutorial', { timeout: 900_000, skip: missing }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'corniche-tutorial-'));
  const [rpc, site] = await freePorts(2);
  // A reader can use the default ports. Nothing else is changed in commands and page.
  const own = (text) => text.replaceAll('127.0.0.1:8545', `127.0.0.1:${rpc}`).replaceAll('127.0.0.1:8000', `127.0.0.1:${site}`)
    .replace(/^corniche dev /gm, `corniche dev --port ${rpc} `);
  const source = join(folder, 'checkout');
  cpSync(join(repository, 'docs/tutorial/page'), join(source, 'docs/tutorial/page'), { recursive: true });
  writeFileSync(join(source, 'docs/tutorial/page/app.ts'), own(readFileSync(join(repository, 'docs/tutorial/page/app.ts'), 'utf8')));
  cpSync(join(repository, 'sdk/js/viem'), join(source, 'sdk/js/viem'), { recursive: true });

  const env = {
    ...process.env,
    CORNICHE: source,
    PATH: [dirname(corniche), process.env.PATH].join(delimiter),
    CORNICHE_RPC: `http://127.0.0.1:${rpc}`,
    // The directory where the tests of the command have built the same project.
    CARGO_TARGET_DIR: join(dirname(corniche), '../tmp/projects'),
    npm_config_prefer_offline: 'true',
  };
  const running = [];
  t.after(async () => {
    const ended = (child) => child.exitCode !== null || child.signalCode !== null;
    for (const child of running) if (!ended(child)) process.kill(-child.pid, 'SIGKILL');
    await Promise.all(running.map((child) => until('a process to end', () => ended(child))));
    rmSync(folder, { recursive: true, force: true });
  });

  /** Simulates one terminal: each block of commands inherits folder and variables of the previous one. */
  const state = join(folder, 'state');
  writeFileSync(state, `cd ${folder}\n`);
  const type = async (commands) => {
    const script = `set -e\nsource ${state}\n${commands}\n{ export -p; echo "cd '$PWD'"; } > ${state}\n`;
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env, maxBuffer: 1 << 24 });
    return stdout;
  };
  const leave = (commands) => {
    // With an open standard input, as in a terminal, because some commands end with it.
    const child = spawn('bash', ['-c', `source ${state}\n${commands}`], { env, stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    running.push(child);
  };
  const answers = (port) => until(`something to answer on port ${port}`, () => fetch(`http://127.0.0.1:${port}`).then(() => true));

  const text = readFileSync(join(repository, 'docs/tutorial/README.md'), 'utf8');
  const blocks = [...text.matchAll(/^## (.*)$|^```sh\n([^]*?)^```$/gm)];
  const said = {};
  let heading;
  for (const [, title, commands] of blocks) {
    if (title) heading = title;
    if (!commands) continue;
    await t.test(`${heading}: ${commands.trim().split('\n')[0]}`, async () => {
      if (commands.startsWith('# in another terminal')) {
        leave(own(commands));
        await answers(commands.includes('esbuild') ? site : rpc);
      } else {
        said[heading] = `${said[heading] ?? ''}${await type(own(commands))}`;
      }
    });
  }

  await t.test('the chain says what the commands did', () => {
    assert.match(said['On the chain'], /\b41\b/);
    assert.match(said['On the chain'], /Incremented/);
  });

  await t.test('the page is right by its types', async () => {
    assert.equal(await compile(join(folder, 'dapp/page'), ['app.ts']), '');
  });

  await t.test('a visitor with a wallet raises the number, and the page shows that it is so', async () => {
    const wallet = await build({
      stdin: { contents: `import { Wallet } from './page/wallet.js'; window.ethereum = new Wallet('${KEY}');`, resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
      bundle: true, write: false, format: 'iife', logLevel: 'error',
    });
    const page = await visit(t, `http://127.0.0.1:${site}/`, wallet.outputFiles[0].text);
    await page.waitForFunction(() => document.getElementById('number').value === '41');
    await page.click('#connect');
    await page.waitForFunction(() => document.getElementById('said').textContent.startsWith('Connected as 0xf39F'));
    await page.click('#raise');
    await page.waitForFunction(() => document.getElementById('number').value === '42');
    assert.match(await page.textContent('#said'), /^Final in block \d+, signed by 1 of 1 validators\.$/);
    assert.equal((await type('corniche contract call $COUNTER number')).trim(), '42');
  });
});

async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => resolve(server));
  })));
  return Promise.all(servers.map((server) => {
    const { port } = server.address();
    return new Promise((resolve) => server.close(() => resolve(port)));
  }));
}
