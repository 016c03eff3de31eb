// The explorer beside a development chain: it follows the chain forward and through reverts. Also on PostgreSQL, which is
// stopped and restarted.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import test from 'node:test';
import { keccak256 } from 'viem';
import { started, withNetwork, underEveryEngine } from '../../js/network.js';
import { postgres } from '../lib/postgres.js';
import { until } from '../../js/until.js';

async function page(explorer, path) {
  const response = await fetch(explorer + path);
  return { status: response.status, text: await response.text() };
}

async function ask(explorer, path) {
  const response = await fetch(`${explorer}/api/v1${path}`);
  return { status: response.status, answer: await response.json() };
}

/** Waits until the explorer has this block at its height. */
const shows = (explorer, { number, blockHash }) =>
  until(`the explorer to have block ${number} as ${blockHash}`, async () => {
    const { status, answer } = await ask(explorer, `/blocks/${number}`);
    return status === 200 && answer.block.hash === blockHash;
  });

/** Sends this amount of wei and returns its block. */
async function pay(network, value) {
  const [node] = network.nodes;
  const [payer, payee] = network.accounts;
  const hash = await node.wallet(payer).sendTransaction({ to: payee.address, value });
  const { blockNumber, blockHash } = await node.receipt(hash);
  return { hash, number: Number(blockNumber), blockHash };
}

underEveryEngine('the explorer of a development chain', { timeout: 300_000, except: ['neobft'] }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { dev: true, engine, explorer: true });
  const [node] = network.nodes;
  const { explorer } = network;
  let first;
  let undone;

  await step('shows a transaction with its bytes and arrival time', async () => {
    first = await pay(network, 1n);
    await shows(explorer, first);
    const { answer } = await ask(explorer, `/transactions/${first.hash}`);
    assert.equal(answer.transaction.block, first.number);
    const { result: raw } = await node.call('eth_getRawTransactionByHash', first.hash);
    assert.equal(keccak256(raw), first.hash);
    const { result: told } = await node.call('corniche_getTransactionStatus', first.hash);
    const { status, text } = await page(explorer, `/tx/${first.hash}`);
    assert.equal(status, 200);
    assert.ok(text.includes(raw), 'its bytes');
    assert.ok(text.includes(`data-ms="${Number(told.receivedMs)}"`), 'when it came');
  });

  await step('removes reverted blocks', async () => {
    const { result: snapshot } = await node.call('evm_snapshot');
    undone = await pay(network, 2n);
    await shows(explorer, undone);
    assert.equal((await page(explorer, `/tx/${undone.hash}`)).status, 200);
    assert.equal((await node.call('evm_revert', snapshot)).result, true);
    await until('the explorer to go back', async () => (await page(explorer, `/tx/${undone.hash}`)).status === 404);
    assert.equal((await ask(explorer, `/transactions/${undone.hash}`)).status, 404);
    assert.equal((await ask(explorer, `/blocks/${undone.blockHash}`)).status, 404);
    // It starts again from the first block.
    await shows(explorer, first);
    assert.equal((await ask(explorer, `/transactions/${first.hash}`)).answer.transaction.block, first.number);
  });

  await step('shows the replacing block', async () => {
    const other = await pay(network, 3n);
    assert.equal(other.number, undone.number);
    assert.notEqual(other.blockHash, undone.blockHash);
    await shows(explorer, other);
    assert.equal((await ask(explorer, `/transactions/${other.hash}`)).answer.transaction.block, other.number);
    assert.equal((await page(explorer, `/tx/${undone.hash}`)).status, 404);
  });
});

test('an explorer without DAG rounds', { timeout: 300_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { dev: true, explorer: true, flags: ['--dag-rounds', '0'] });
  const { explorer } = network;

  await step('blocks', async () => shows(explorer, await pay(network, 1n)));

  await step('the missing rounds are explained', async () => {
    const why = 'the explorer is configured to keep no rounds';
    await until('the explorer to say so', async () => (await page(explorer, '/dag')).text.includes(why));
    assert.equal((await ask(explorer, '/dag')).status, 404);
  });
});

test('an explorer over PostgreSQL', { timeout: 300_000 }, async (t) => {
  const database = await postgres(t);
  const { network, step } = await withNetwork(t, { dev: true });
  const command = ['explorer', '--node', network.nodes[0].rpc, '--database', database, '--listen', '127.0.0.1:0', '--json'];
  const start = async () => {
    const { child, description } = await started(command, join(network.directory, 'explorer.log'));
    t.after(() => child.kill('SIGKILL'));
    return { child, url: description.explorer };
  };
  let explorer;
  let first;

  await step('follows a chain', async () => {
    explorer = await start();
    first = await pay(network, 1n);
    await shows(explorer.url, first);
    const { answer } = await ask(explorer.url, '/status');
    assert.deepEqual([answer.chainId, answer.halted, answer.development], [network.chain.id, null, true]);
    assert.ok(answer.indexed >= first.number, `${answer.indexed} of ${first.number}`);
  });

  await step('continues after a restart', async () => {
    const ended = once(explorer.child, 'exit');
    explorer.child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    const meanwhile = await pay(network, 2n);
    explorer = await start();
    // Served from the database alone, before the first request to the node.
    assert.equal((await ask(explorer.url, `/transactions/${first.hash}`)).answer.transaction.block, first.number);
    await shows(explorer.url, meanwhile);
  });
});
