// A page and a browser wallet in a real browser: tests CORS, fetch and EIP-1193 in addition to the libraries.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { decodeErrorResult, numberToHex, verifyMessage, verifyTypedData } from 'viem';
import { withNetwork } from '../../../testnet/js/network.js';
import { missing, open } from '../lib/browser.js';
import { supply, token } from '../lib/tour.js';

test('a wallet in a browser adds the network, signs and sends', { timeout: 120_000, skip: missing }, async (t) => {
  const { network, step } = await withNetwork(t, { dev: true });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const page = await open(t, { '/': '<!doctype html><script src="dapp.js"></script>', '/dapp.js': await bundle() });
  await page.evaluate((key) => window.install(key), network.keys[0]);
  /** Calls one of the page's functions. */
  const dapp = (name, ...args) => page.evaluate(([called, given]) => window.dapp[called](...given), [name, args]);

  const chainId = numberToHex(network.chain.id);
  const described = { ...documented(), chainId, rpcUrls: [node.rpc] };
  let contract;
  let moved;

  await step('a network the wallet does not know is added, with the parameters that the documentation names', async () => {
    assert.equal((await dapp('switchNetwork', chainId)).code, 4902);
    const wrong = await dapp('addNetwork', { ...described, chainId: '0x1' });
    assert.equal(wrong.code, -32602, wrong.message);
    assert.deepEqual(await dapp('addNetwork', described), { result: null });
    assert.deepEqual(await dapp('connect'), { accounts: [owner.address], chainId });
  });

  await step('it signs messages and typed data', async () => {
    const message = 'Corniche';
    const typed = {
      domain: { name: 'Corniche', chainId: network.chain.id },
      types: { Payment: [{ name: 'to', type: 'address' }, { name: 'amount', type: 'uint256' }] },
      value: { to: friend.address, amount: '5' },
    };
    const signed = await dapp('sign', message, typed);
    const { address } = owner;
    assert.ok(await verifyMessage({ address, message, signature: signed.message }));
    const { domain, types, value } = typed;
    assert.ok(await verifyTypedData({ address, domain, types, primaryType: 'Payment', message: value, signature: signed.typed }));
  });

  await step('it sends', async () => {
    const before = await node.client.getBalance({ address: friend.address });
    const { status, type, gasUsed, hash } = await dapp('send', { to: friend.address, value: '7' });
    assert.deepEqual([status, type, gasUsed], [1, 2, '21000']);
    assert.equal((await node.client.getTransaction({ hash })).from, owner.address.toLowerCase());
    assert.equal(await node.client.getBalance({ address: friend.address }), before + 7n);
  });

  await step("the browser's own WebSocket hears of the next block", async () => {
    const heard = page.evaluate((url) => new Promise((resolve, reject) => {
      const socket = new WebSocket(url);
      socket.onerror = () => reject(new Error('the WebSocket failed'));
      socket.onopen = () => socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }));
      socket.onmessage = ({ data }) => {
        const { id, params } = JSON.parse(data);
        if (id === 1) window.subscribed = true;
        else resolve(params.result.number);
      };
    }), node.rpc.replace(/^http/, 'ws'));
    await page.waitForFunction(() => window.subscribed);
    const before = await node.client.getBlockNumber();
    await dapp('send', { to: friend.address, value: '7' });
    assert.ok(BigInt(await heard) > before);
  });

  await step('it deploys a contract, uses it and hears its event', async () => {
    contract = { abi: token.abi, address: await dapp('deploy', token, 'Cornice', 'CRN', String(supply)) };
    const { event, count, balance } = await dapp('transfer', contract, friend.address, '1000');
    assert.deepEqual(event, [owner.address, friend.address, '1000']);
    moved = 1000n * BigInt(count);
    assert.equal(balance, String(moved));
  });

  await step('what the contract refuses reaches the page by name', async () => {
    const { code, data } = await dapp('transferFails', contract, friend.address, String(2n * supply));
    assert.equal(code, 'CALL_EXCEPTION');
    const { errorName, args } = decodeErrorResult({ abi: token.abi, data });
    assert.deepEqual([errorName, ...args], ['ERC20InsufficientBalance', owner.address, supply - moved, 2n * supply]);
  });
});

/** Returns the parameters of `wallet_addEthereumChain` from docs/connect-a-wallet.md. */
function documented() {
  const text = readFileSync(fileURLToPath(new URL('../../../docs/connect-a-wallet.md', import.meta.url)), 'utf8');
  const [, block] = text.match(/`wallet_addEthereumChain`[^]*?```json\n([^]*?)```/);
  return JSON.parse(block);
}

async function bundle() {
  const entryPoints = [fileURLToPath(new URL('../page/dapp.js', import.meta.url))];
  const { outputFiles } = await build({ entryPoints, bundle: true, write: false, format: 'iife', logLevel: 'error' });
  return outputFiles[0].text;
}
