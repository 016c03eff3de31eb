// Examples of the Rust client, run as in its README: complete programs against a node.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { wasm } from '../../js/contracts.js';
import { corniche, withNetwork } from '../../js/network.js';

/** Output folder of `cargo build --examples`. */
const examples = process.env.CLIENT_EXAMPLES ?? join(dirname(corniche), 'examples');

test("the Rust client's examples", { timeout: 120_000 }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'corniche-client-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const { network, step } = await withNetwork(t, { dev: true, flags: ['--data', directory] });
  const [node] = network.nodes;
  const [, friend] = network.accounts;

  const run = async (example, ...words) => {
    const program = join(examples, example);
    assert.ok(existsSync(program), `${program} is missing: \`make e2e\`, or set CLIENT_EXAMPLES`);
    const env = { ...process.env, CORNICHE_KEY: network.keys[0], CORNICHE_RPC: node.rpc };
    return (await promisify(execFile)(program, words, { env })).stdout.trim().split('\n');
  };

  await step('transfer', async () => {
    const before = await node.client.getBalance({ address: friend.address });
    const [receipt, balances] = await run('transfer', friend.address, '1000');
    const [, hash, block] = receipt.match(/^(0x\w{64}) in block (\d+)$/);
    assert.equal((await node.client.getTransactionReceipt({ hash })).blockNumber, BigInt(block));
    assert.equal(balances, `${friend.address} had ${before} wei and has ${before + 1000n}`);
    await assert.rejects(run('transfer', friend.address, String(10n ** 30n)), /insufficient funds/);
    await assert.rejects(run('transfer', friend.address), /transfer ACCOUNT WEI/);
  });

  await step('deploy', async () => {
    const module = join(directory, 'counter.wasm');
    writeFileSync(module, wasm('counter'));
    const [where, number, refusal] = await run('deploy', module);
    assert.match(where, /^the counter is at 0x\w{40}$/);
    assert.equal(number, 'its number is 42');
    assert.match(refusal, /^it does not go beyond its type: 42 and \d{78} is too much$/);
  });

  await step('verify', async () => {
    const [final, shown] = await run('verify', join(directory, 'genesis.json'), friend.address);
    assert.match(final, /^0x\w{64} is final in block \d+: 1 of 1 validators signed$/);
    const [, wei, block, root] = shown.match(/^0x\w{40} has (\d+) wei in block (\d+), state (0x\w{64})$/);
    assert.equal(BigInt(wei), await node.client.getBalance({ address: friend.address, blockNumber: BigInt(block) }));
    assert.equal((await node.client.getBlock({ blockNumber: BigInt(block) })).stateRoot, root);
    // The genesis of another chain proves nothing, although its validators have equal keys.
    const genesis = JSON.parse(readFileSync(join(directory, 'genesis.json'), 'utf8'));
    const other = join(directory, 'other.json');
    writeFileSync(other, JSON.stringify({ ...genesis, chain_id: genesis.chain_id + 1 }));
    await assert.rejects(run('verify', other, friend.address), /Unproven .*certificate: expected committee/);
  });
});
