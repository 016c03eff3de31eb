// The package as its users get it: packed, unpacked into a project of its own, beside the viem that it asks for.

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Where the package's sources are. */
export const SOURCES = at('viem');

/** A project with the package in it: its folder and what `npm pack` says it packed. It goes with the test. */
export async function project(t) {
  const folder = mkdtempSync(join(tmpdir(), 'corniche-package-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const { stdout } = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], { cwd: SOURCES });
  // What the build before it says comes first.
  const [packed] = Object.values(JSON.parse(stdout.slice(stdout.search(/^[[{]/m))));
  const installed = join(folder, 'node_modules/@corniche/viem');
  mkdirSync(installed, { recursive: true });
  await run('tar', ['-xzf', join(folder, packed.filename), '-C', installed, '--strip-components=1']);
  symlinkSync(at('node_modules/viem'), join(folder, 'node_modules/viem'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  // All that its programs need of Node.js' own types.
  const readFile = 'export function readFile(path: string, encoding: "utf8"): Promise<string>;';
  writeFileSync(join(folder, 'node.d.ts'), `declare module 'node:fs/promises' { ${readFile} }`);
  return { folder, packed, installed };
}

/** The programs in a document: its blocks of TypeScript, each by the heading that it stands under. */
export function programs(document) {
  const text = readFileSync(document, 'utf8');
  const found = [...text.matchAll(/^#+ (.*)$|^```ts\n([^]*?)^```$/gm)];
  let heading = '';
  return found.flatMap(([, title, program]) => {
    if (title) heading = title;
    return program ? [{ heading, program }] : [];
  });
}

/** What the compiler has to say of these files, which it takes as a strict project takes them. */
export async function compile(folder, files, { lib = 'es2023,dom' } = {}) {
  const flags = ['--strict', '--exactOptionalPropertyTypes', '--target', 'es2023', '--module', 'nodenext', '--lib', lib, '--ignoreConfig'];
  const done = await run(at('node_modules/.bin/tsc'), [...flags, ...files], { cwd: folder }).catch((error) => error);
  return (done.stdout + done.stderr).trim();
}

/** Runs a program of the project and answers what it prints. */
export const node = async (folder, file) => (await run(process.execPath, [file], { cwd: folder })).stdout;

/** A module with this ABI and no other, as `corniche contract build` puts one there. */
export function carrying(module, abi, name = 'corniche.abi') {
  const length = (number) => (number < 0x80 ? [number] : [(number & 0x7f) | 0x80, ...length(number >>> 7)]);
  const content = [name.length, ...new TextEncoder().encode(name), ...(typeof abi === 'string' ? new TextEncoder().encode(abi) : abi)];
  return Uint8Array.from([...plain(module), 0, ...length(content.length), ...content]);
}

/** A module without its custom sections: it does the same, and says nothing of itself. */
export function plain(module) {
  const kept = [...module.subarray(0, 8)];
  for (let at = 8; at < module.length; ) {
    let [end, shift, length] = [at + 1, 0, 0];
    do length |= (module[end] & 0x7f) << shift, (shift += 7);
    while (module[end++] & 0x80);
    end += length;
    if (module[at] !== 0) kept.push(...module.subarray(at, end));
    at = end;
  }
  return Uint8Array.from(kept);
}
