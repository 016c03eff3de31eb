// The contracts under test: their creation data and their ABIs.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { bytesToHex, concatHex, numberToHex } from 'viem';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const built = process.env.CONTRACTS_WASM_DIR ?? join(repository, 'target/contracts/wasm32-unknown-unknown/release');

/** PUSH32 length, then DUP1, PUSH1 43, PUSH1 0, CODECOPY, PUSH1 0, RETURN, STOP: the form to which arguments can be appended. */
const prelude = (length) => concatHex(['0x7f', numberToHex(length, { size: 32 }), '0x80602b6000396000f300']);

/** The ABI from contracts/<name>/abi.json. */
export function abi(name) {
  return JSON.parse(readFileSync(join(repository, 'contracts', name, 'abi.json'), 'utf8'));
}

/** The module built by `cargo build`. */
export function wasm(name) {
  const path = join(built, `${name}.wasm`);
  if (!existsSync(path)) throw new Error(`${path} is missing: \`make contracts\`, or set CONTRACTS_WASM_DIR`);
  return readFileSync(path);
}

/** "Bytecode" for wallet libraries, which append the constructor arguments. */
export function bytecode(name) {
  return packed(wasm(name));
}

/** As `bytecode`, for a given module. */
export function packed(module) {
  const compressed = brotliCompressSync(module, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 },
  });
  const code = concatHex(['0xeff00000', bytesToHex(compressed)]);
  return concatHex([prelude((code.length - 2) / 2), code]);
}
