// Every page over a live network of four validators, as people see it.

import assert from 'node:assert/strict';
import test from 'node:test';
import { story } from '../../../testnet/e2e/lib/network.js';
import { until } from '../../../testnet/e2e/lib/until.js';
import { fill } from '../lib/chain.js';
import { Explorer, PHONE, close, isSound, missing } from '../lib/explorer.js';

test('the explorer of a live network', { timeout: 300_000, skip: missing }, async (t) => {
  const { network, step } = await story(t, { validators: 4, explorer: true });
  const [node] = network.nodes;
  const chain = await fill(network);
  const explorer = await Explorer.open(t, network.explorer);
  const { hash, receipt } = chain.refused;

  await step('it catches up with the node', () =>
    until('the newest transaction to have a page', async () => {
      const page = await fetch(`${network.explorer}/tx/${hash}`);
      return page.ok && (await page.text()).includes('certified');
    }));

  const paths = [
    '/',
    '/blocks',
    '/txs',
    `/block/${receipt.blockNumber}`,
    `/block/${receipt.blockHash}`,
    '/block/0',
    `/tx/${chain.transfer.hash}`,
    `/tx/${chain.creation.hash}`,
    `/tx/${chain.moved.hash}`,
    `/tx/${hash}`,
    `/address/${chain.owner.address}`,
    `/address/${chain.token}`,
  ];

  await step('every page is sound: at a desk, on a phone, in the dark', async () => {
    for (const path of paths) {
      for (const look of [{}, { viewport: PHONE }, { colorScheme: 'dark' }]) {
        const page = await explorer.visit(path, look);
        assert.equal(page.answer.status(), 200, path);
        await isSound(page);
        await close(page);
      }
    }
  });

  await step('every page is whole without a script', async () => {
    for (const path of paths) {
      const page = await explorer.visit(path, { script: false });
      assert.ok(await page.locator('main h1').innerText(), path);
      assert.equal(await page.locator('[hidden]').filter({ visible: true }).count(), 0);
      await close(page);
    }
  });

  await step('a block tells who led it, whose batch carried what, and who signed', async () => {
    const page = await explorer.visit(`/block/${chain.moved.receipt.blockNumber}`);
    const text = await page.locator('main').innerText();
    for (const words of ['Leader', 'Proposed by', 'Signed by', 'certified']) assert.ok(text.includes(words), `${words} in ${text}`);
    assert.match(text, /validator [0-3]/);
    await close(page);
  });

  await step('a transaction is told in words: its call, its logs, what moved', async () => {
    const page = await explorer.visit(`/tx/${chain.moved.hash}`);
    const text = await page.locator('main').innerText();
    for (const words of ['transfer(address,uint256)', 'Transfer(address,address,uint256)', chain.friend.address, 'GLD', 'succeeded']) {
      assert.ok(text.includes(words), `${words} in ${text}`);
    }
    await close(page);
  });

  await step('one that failed says why', async () => {
    const page = await explorer.visit(`/tx/${hash}`);
    const text = await page.locator('main').innerText();
    assert.ok(text.includes('reverted') && text.includes('ERC20InsufficientBalance'), text);
    await close(page);
  });

  await step('the home page follows the chain by itself', async () => {
    const page = await explorer.visit('/');
    await until('the page to listen', () => page.evaluate(() => performance.getEntriesByType('resource').length > 0));
    const sent = await node.wallet(chain.owner).sendTransaction({ to: chain.friend.address, value: 7n });
    const { blockNumber } = await node.receipt(sent);
    const listed = page.locator(`#blocks a[href="/block/${blockNumber}"]`);
    await listed.waitFor({ timeout: 30_000 });
    await page.locator(`#transactions a[href="/tx/${sent}"]`).waitFor({ timeout: 30_000 });
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('what is not there is said, with what to try', async () => {
    for (const [path, status, words] of [
      ['/block/999999999', 404, 'There is no block 999999999'],
      [`/tx/0x${'ab'.repeat(32)}`, 404, 'There is no transaction'],
      ['/tx/0xnonsense', 400, 'named by its hash'],
      ['/address/0x12', 400, 'An address is 0x and 40 digits'],
      ['/nowhere', 404, 'There is no page at /nowhere'],
    ]) {
      const answer = await fetch(network.explorer + path);
      assert.equal(answer.status, status, path);
      const text = await answer.text();
      assert.ok(text.includes(words), `${path}: ${text}`);
    }
  });

  await step('nothing of anybody else is loaded, and nobody else may frame it', async () => {
    const answer = await fetch(network.explorer);
    const policy = answer.headers.get('content-security-policy');
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
  });
});
