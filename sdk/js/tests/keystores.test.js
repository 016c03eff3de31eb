// Exchange of keystore files: `corniche account` opens those of cast and ethers, and the reverse.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { Wallet } from 'ethers';
import { corniche } from '../../../testnet/js/network.js';
import { Cast, binary as cast } from '../lib/cast.js';

const run = promisify(execFile);
const password = 'correct horse';
const secret = '0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318';
const { address } = new Wallet(secret);

async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), 'corniche-keystores-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  await writeFile(join(path, 'key'), secret, { mode: 0o600 });
  return path;
}

/** Runs `corniche account`. */
async function account(home, ...args) {
  const env = { PATH: process.env.PATH, HOME: home, CORNICHE_KEYSTORES: home, CORNICHE_PASSWORD: password };
  return (await run(corniche, ['account', ...args], { env })).stdout.trim();
}

/** Checks that the keystore contains the key, and that a wrong password is rejected. */
async function opens(home, name) {
  assert.equal(await account(home, 'show', name, '--private-key'), secret);
  assert.equal((await account(home, 'show', name)).toLowerCase(), address.toLowerCase());
  await writeFile(join(home, 'wrong'), 'incorrect horse');
  await assert.rejects(account(home, '--password-file', join(home, 'wrong'), 'show', name, '--private-key'), /password/);
}

test('ethers and corniche open what the other locked', async (t) => {
  const home = await folder(t);
  await writeFile(join(home, 'by-ethers'), new Wallet(secret).encryptSync(password));
  await opens(home, join(home, 'by-ethers'));

  await account(home, 'import', join(home, 'ours'), '--key-file', join(home, 'key'));
  const text = await readFile(join(home, 'ours'), 'utf8');
  assert.equal(Wallet.fromEncryptedJsonSync(text, password).privateKey, secret);
});

test('cast and corniche open what the other locked', { skip: cast ? false : 'there is no cast for this machine' }, async (t) => {
  const home = await folder(t);
  const foundry = new Cast('http://127.0.0.1:1', home);
  await foundry.run('wallet', 'import', 'by-cast', '--keystore-dir', home, '--private-key', secret, '--unsafe-password', password);
  await opens(home, join(home, 'by-cast'));

  await account(home, 'import', join(home, 'ours'), '--key-file', join(home, 'key'));
  assert.equal(await foundry.run('wallet', 'address', '--keystore', join(home, 'ours'), '--password', password), address);
});
