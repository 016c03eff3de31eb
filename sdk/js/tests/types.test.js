// TypeScript types of the node's responses: the file matches the node's document, a program that uses it compiles and
// runs, and a program with mistakes does not compile.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { withNetwork } from '../../../testnet/js/network.js';
import { typesOf } from '../types/generate.js';

const at = (path) => fileURLToPath(new URL(`../types/${path}`, import.meta.url));

/** Returns the compiler's messages: `file(line,column): error …`, one on each line. */
function compiled(...flags) {
  const tsc = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url));
  return new Promise((resolve) => execFile(tsc, flags, { cwd: at('.') }, (_, stdout, stderr) => resolve((stdout + stderr).trim())));
}

test('types of the RPC', { timeout: 120_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { dev: true });
  const [node] = network.nodes;

  await step("the file is what the node's document gives", async () => {
    const { result } = await node.call('rpc_discover');
    assert.ok((await typesOf(result)) === readFileSync(at('../viem/src/rpc.ts'), 'utf8'), 'viem/src/rpc.ts is not what rpc_discover gives: `npm run types`');
  });

  await step('it compiles by itself, and so does a program that uses it', async () => {
    assert.equal(await compiled('--noEmit', '--strict', '--ignoreConfig', at('../viem/src/rpc.ts')), '');
    assert.equal(await compiled('--project', at('tsconfig.json')), '');
  });

  await step('the program says what is true', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'corniche-types-'));
    try {
      const outfile = join(directory, 'sample.mjs');
      await build({ entryPoints: [at('sample.ts')], bundle: true, format: 'esm', platform: 'node', outfile });
      const { sample } = await import(pathToFileURL(outfile));
      const [chainId, number, pending, executed, certified, failure, quorum, ...keys] = await sample(node.rpc);
      assert.equal(Number(chainId), network.chain.id);
      const { hash } = await node.client.getBlock();
      assert.deepEqual([number, pending, executed, certified, failure, quorum], ['0x0', 'none', hash, hash, 'execution reverted', '0x1']);
      assert.equal(keys.length, 1);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  await step('mistakes do not compile', async () => {
    const flags = ['--noEmit', '--strict', '--ignoreConfig', '--target', 'es2023', '--module', 'nodenext', '--allowImportingTsExtensions'];
    const said = await compiled(...flags, at('wrong.ts'));
    const found = [...said.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line));
    const lines = readFileSync(at('wrong.ts'), 'utf8').split('\n');
    const expected = lines.flatMap((line, index) => (line.includes('// wrong: ') ? [index + 1] : []));
    assert.ok(expected.length > 8);
    assert.deepEqual([...new Set(found)], expected, said);
  });
});
