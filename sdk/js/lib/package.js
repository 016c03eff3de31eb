// The package as users get it: packed, and installed into a new project together with viem.

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Directory of the package's sources. */
export const SOURCES = at('viem');

/** Creates a project with the package. Returns its folder and the report of `npm pack`. The folder is deleted after the test. */
export async function project(t) {
  const folder = mkdtempSync(join(tmpdir(), 'corniche-package-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const { stdout } = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], { cwd: SOURCES });
  // The output of the preceding build comes first.
  const [packed] = Object.values(JSON.parse(stdout.slice(stdout.search(/^[[{]/m))));
  const installed = join(folder, 'node_modules/@corniche/viem');
  mkdirSync(installed, { recursive: true });
  await run('tar', ['-xzf', join(folder, packed.filename), '-C', installed, '--strip-components=1']);
  symlinkSync(at('node_modules/viem'), join(folder, 'node_modules/viem'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  // The only Node.js types that the programs need.
  const readFile = 'export function readFile(path: string, encoding: "utf8"): Promise<string>;';
  writeFileSync(join(folder, 'node.d.ts'), `declare module 'node:fs/promises' { ${readFile} }`);
  return { folder, packed, installed };
}

/** Returns the TypeScript blocks of a document, each with its heading. */
export function programs(document) {
  const text = readFileSync(document, 'utf8');
  const found = [...text.matchAll(/^#+ (.*)$|^```ts\n([^]*?)^```$/gm)];
  let heading = '';
  return found.flatMap(([, title, program]) => {
    if (title) heading = title;
    return program ? [{ heading, program }] : [];
  });
}

/** Returns the compiler's messages for these files under strict options. */
export async function compile(folder, files, { lib = 'es2023,dom' } = {}) {
  const flags = ['--strict', '--exactOptionalPropertyTypes', '--target', 'es2023', '--module', 'nodenext', '--lib', lib, '--ignoreConfig'];
  const done = await run(at('node_modules/.bin/tsc'), [...flags, ...files], { cwd: folder }).catch((error) => error);
  return (done.stdout + done.stderr).trim();
}

/** Runs a program of the project and returns its output. */
export const node = async (folder, file) => (await run(process.execPath, [file], { cwd: folder })).stdout;

/** Replaces a module's custom sections by this ABI, like `corniche contract build`. */
export function carrying(module, abi, name = 'corniche.abi') {
  const length = (number) => (number < 0x80 ? [number] : [(number & 0x7f) | 0x80, ...length(number >>> 7)]);
  const content = [name.length, ...new TextEncoder().encode(name), ...(typeof abi === 'string' ? new TextEncoder().encode(abi) : abi)];
  return Uint8Array.from([...plain(module), 0, ...length(content.length), ...content]);
}

/** Removes a module's custom sections. Its behaviour does not change. */
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
