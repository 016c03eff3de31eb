// Contracts with hostile names, ABIs and errors on a real chain: the explorer shows them without harm.

import assert from 'node:assert/strict';
import test from 'node:test';
import { packed } from '../../../testnet/js/contracts.js';
import { withNetwork } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { Explorer, PHONE, close, isSound } from '../lib/explorer.js';
import { modules } from '../lib/hostile.js';

test('hostile contracts', { timeout: 900_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 1, explorer: true });
  const [node] = network.nodes;
  const [owner] = network.accounts;
  const wallet = node.wallet(owner);
  const explorer = await Explorer.open(t, network.explorer);
  const hostile = await modules(owner.address);
  const there = {};

  await step('deploys hostile contracts', async () => {
    for (const [name, module] of Object.entries(hostile)) {
      const { status, contractAddress } = await node.receipt(await wallet.sendTransaction({ data: packed(module), gas: 25_000_000n }));
      assert.equal(status, 'success', name);
      const minted = await node.receipt(await wallet.sendTransaction({ to: contractAddress, gas: 2_000_000n }));
      assert.deepEqual([minted.status, minted.logs.length], ['success', 2], name);
      const refused = await node.receipt(await wallet.sendTransaction({ to: contractAddress, data: '0x12345678', gas: 2_000_000n }));
      assert.equal(refused.status, 'reverted', name);
      there[name] = { address: contractAddress, minted, refused };
    }
    const last = there.deep.refused.transactionHash;
    await until('the explorer to have them all', async () => {
      const page = await fetch(`${network.explorer}/tx/${last}`);
      return page.ok && (await page.text()).includes('is-certified');
    });
  });

  await step('pages pass and run no foreign script', async () => {
    const paths = ['/', '/txs', '/tokens', `/address/${owner.address}/tokens`, `/address/${owner.address}/transfers`];
    for (const { address, minted, refused } of Object.values(there)) {
      paths.push(...['', '/code', '/abi', '/read', '/write', '/events'].map((part) => `/address/${address}${part}`));
      paths.push(...['', '/holders', '/days'].map((part) => `/token/${address}${part}`));
      paths.push(`/tx/${minted.transactionHash}`, `/tx/${refused.transactionHash}`, `/block/${minted.blockNumber}`);
    }
    for (const words of ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', '\u202e\u0000\uffff', 'A'.repeat(3_000), '%', "' OR 1=1 --"]) {
      paths.push(`/search?q=${encodeURIComponent(words)}`);
    }
    for (const path of paths) {
      const page = await explorer.visit(path, { viewport: PHONE });
      assert.equal(page.answer.status(), 200, path);
      await isSound(page);
      const foreign = await page.evaluate(() =>
        [...document.querySelectorAll('script, img, iframe, object, [onerror], [onclick]')]
          .filter((element) => !(element.src ?? '').startsWith(location.origin))
          .map((element) => element.outerHTML));
      assert.deepEqual(foreign, [], path);
      assert.ok(!(await page.title()).startsWith('taken'), path);
      await close(page);
    }
  });

  await step('hostile texts are escaped', async () => {
    const page = await explorer.visit(`/token/${there.script.address}`);
    assert.match(await page.locator('main').innerText(), /<script>document\.title = "taken"/);
    await page.goto(`/tx/${there.script.refused.transactionHash}`);
    assert.match(await page.locator('main').innerText(), /<img src=x onerror=alert\(2\)>/);
    await close(page);
  });

  await step('API responses are valid JSON', async () => {
    for (const { address } of Object.values(there)) {
      for (const path of [`/api/v1/tokens/${address}`, `/api/v1/contracts/${address}`]) {
        const answer = await fetch(network.explorer + path);
        assert.match(answer.headers.get('content-type'), /^application\/json/, path);
        assert.equal(answer.headers.get('x-content-type-options'), 'nosniff', path);
        const text = await answer.text();
        assert.ok(text.length < 200_000, `${path}: ${text.length}`);
        JSON.parse(text);
      }
    }
  });
});
