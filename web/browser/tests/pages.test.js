// Every page on a live network of four validators.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { withNetwork } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { fill, fillIds } from '../lib/chain.js';
import { Explorer, areSound, areWhole, canBeWalked, close, isSound, rows } from '../lib/explorer.js';

test('explorer of a live network', { timeout: 900_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4, explorer: true });
  const [node] = network.nodes;
  const chain = await fill(network);
  const explorer = await Explorer.open(t, network.explorer);
  const { hash, receipt } = chain.refused;

  const ordering = async () => (await fetch(`${network.explorer}/api/v1/dag`)).json();
  let leader;

  await step('catches up with the node', async () => {
    await until('the newest transaction to have a page', async () => {
      const page = await fetch(`${network.explorer}/tx/${hash}`);
      return page.ok && (await page.text()).includes('is-certified');
    });
    leader = await until('the explorer to know of a committed leader', async () =>
      (await ordering()).rounds.flatMap(({ slots }) => slots).find(({ status }) => status === 'committed'));
  });

  const [round, rank] = [Number(leader.round), Number(leader.rank)];

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
    `/tx/${chain.moved.hash}?changes`,
    `/tx/${hash}`,
    `/address/${chain.owner.address}`,
    `/address/${chain.token}`,
    ...['transactions', 'tokens', 'transfers', 'approvals', 'calls'].map((part) => `/address/${chain.owner.address}/${part}`),
    ...['code', 'abi', 'read', 'write', 'events'].map((part) => `/address/${chain.token}/${part}`),
    '/tokens',
    ...['', '/holders', '/days'].map((part) => `/token/${chain.token}${part}`),
    '/validators',
    '/validator/0',
    '/dag',
    ...[`${round}.${rank}`, leader.digest].map((pick) => `/dag?round=${round}&pick=${pick}`),
    '/statistics',
    '/network',
    '/search?q=gol',
    '/search?q=no+such+thing',
    '/api',
  ];

  await step('pages pass on desktop, on a phone and in the dark theme', () => areSound(explorer, paths));

  await step('pages are usable with the keyboard', async () => {
    for (const path of ['/', '/dag', `/block/${receipt.blockNumber}`, `/tx/${chain.moved.hash}`, `/address/${chain.token}/write`, `/token/${chain.token}/days`]) {
      const page = await explorer.visit(path, { colorScheme: 'dark' });
      await canBeWalked(page);
      await close(page);
    }
  });

  await step('pages work without JavaScript', () => areWhole(explorer, paths));

  await step('block shows leader, batches and signers', async () => {
    const page = await explorer.visit(`/block/${chain.moved.receipt.blockNumber}`);
    const text = await page.locator('main').innerText();
    for (const words of ['Leader', 'Proposed by', 'Signers', 'certified']) assert.ok(text.includes(words), `${words} in ${text}`);
    assert.match(text, /validator [0-3]/);
    await close(page);
  });

  await step('block shows its execution', async () => {
    const path = `/block/${chain.moved.receipt.blockNumber}`;
    await until('the explorer to know how the block was run', async () =>
      (await (await fetch(`${network.explorer}${path}`)).text()).includes('Speculative results used'));
    const page = await explorer.visit(path);
    assert.match(await page.getByRole('img', { name: /in 1 lane;/ }).getAttribute('aria-label'), /^1 transaction in 1 lane; 0 executed again/);
    assert.match(await page.locator('main').innerText(), /1 of \d+ used/);
    await close(page);
  });

  await step('transaction shows decoded call, logs and transfers', async () => {
    const page = await explorer.visit(`/tx/${chain.moved.hash}`);
    const text = await page.locator('main').innerText();
    for (const words of ['transfer(address,uint256)', 'Transfer(address,address,uint256)', chain.friend.address, 'GLD', 'succeeded']) {
      assert.ok(text.includes(words), `${words} in ${text}`);
    }
    await close(page);
  });

  await step('transaction shows timeline and calls', async () => {
    const page = await explorer.visit(`/tx/${chain.moved.hash}`);
    const way = await page.locator('ol.timeline').innerText();
    for (const word of ['ordered', 'certified']) assert.ok(way.includes(word), `${word} in ${way}`);
    assert.match(await page.locator('#calls li').first().innerText(), /\d gas/);
    await close(page);
  });

  await step('transaction shows state changes', async () => {
    const page = await explorer.visit(`/tx/${chain.moved.hash}?changes`);
    const text = await page.locator('#changes').innerText();
    for (const words of ['Balance', 'Nonce', 'Slot 0x']) assert.ok(text.includes(words), `${words} in ${text}`);
    await close(page);
  });

  await step('script adds theme, units, times, highlights, copies and search key', async () => {
    const page = await explorer.visit(`/tx/${chain.moved.hash}`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.locator('#theme').click();
    assert.equal(await theme(), 'dark');
    await page.reload();
    assert.equal(await theme(), 'dark', 'it is remembered');
    await page.locator('#unit').selectOption('0');
    const amounts = await page.locator('main [data-wei]').allInnerTexts();
    assert.ok(amounts.length > 0 && amounts.every((amount) => /^[\d,]+ wei$/.test(amount)), amounts.join('; '));
    assert.match(await page.locator('main dd time').first().innerText(), / ago\)$/);
    const friend = page.locator(`main .value[data-value="${chain.friend.address}"]`).first();
    await friend.locator('code').hover();
    await until('equal values to light up', async () => (await page.locator('.value.same').count()) >= 2);
    // The sign disappears again, so the wait begins before the click.
    await Promise.all([page.locator('.copy.done').waitFor({ timeout: 30_000 }), friend.locator('.copy').click()]);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), chain.friend.address);
    await page.locator('main').press('/');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'q');
    assert.equal(await page.locator('#q').inputValue(), '');
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('latency matrix covers every node', async () => {
    const measured = () => fetch(`${network.explorer}/api/v1/peers`).then((answer) => answer.json());
    await until('every node to have measured its links', async () =>
      (await measured()).nodes.every(({ peers }) => peers.length === 3 && peers.every(({ roundTripUs }) => roundTripUs !== null)));
    const page = await explorer.visit('/network');
    const rows = await page.locator('.matrix tbody tr').allInnerTexts();
    assert.equal(rows.length, 4);
    rows.forEach((row, at) => assert.ok(row.includes(`validator ${at}`) && row.match(/\d ms/g).length === 3, row));
    assert.equal(await page.locator('#network').getByText('corniche/').count() >= 4, true);
    await close(page);
  });

  await step('failed transaction shows the reason', async () => {
    const page = await explorer.visit(`/tx/${hash}`);
    const text = await page.locator('main').innerText();
    assert.ok(text.includes('reverted') && text.includes('ERC20InsufficientBalance'), text);
    await close(page);
  });

  await step('home page updates live', async () => {
    const page = await explorer.visit('/');
    await until('the page to listen', () => page.listens);
    const sent = await node.wallet(chain.owner).sendTransaction({ to: chain.friend.address, value: 7n });
    const { blockNumber } = await node.receipt(sent);
    const listed = page.locator(`#blocks a[href="/block/${blockNumber}"]`);
    await listed.waitFor({ timeout: 30_000 });
    await page.locator(`#transactions a[href="/tx/${sent}"]`).waitFor({ timeout: 30_000 });
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('tokens with IDs list their holders', async () => {
    const { cards, given, items, shared } = await fillIds(network);
    await until('the explorer to have read them', async () => (await fetch(`${network.explorer}/api/v1/transactions/${shared.transactionHash}`)).ok);
    const [owner, friend] = [chain.owner.address, chain.friend.address];
    const list = async (path) => {
      const page = await explorer.visit(path);
      assert.equal(page.answer.status(), 200, path);
      await isSound(page);
      const told = { rows: await rows(page), text: await page.locator('main').innerText() };
      await close(page);
      return told;
    };
    const card = await list(`/token/${cards}`);
    assert.ok(card.text.includes('ERC-721') && card.text.includes('Cards'), card.text);
    const { Transaction, From, To, 'Token ID': id } = card.rows[0];
    assert.deepEqual([card.rows.length, Transaction, From, To, id], [3, given.transactionHash, owner, friend, '#0']);
    const ids = [{ 'Token ID': '#1', Holder: owner, Amount: '1' }, { 'Token ID': '#0', Holder: friend, Amount: '1' }];
    assert.deepEqual((await list(`/token/${cards}/ids`)).rows, ids);
    assert.match((await list(`/token/${items}`)).text, /ERC-1155/);
    assert.deepEqual((await list(`/token/${items}/ids`)).rows, [
      { 'Token ID': '#8', Holder: owner, Amount: '80' }, { 'Token ID': '#7', Holder: owner, Amount: '40' }, { 'Token ID': '#7', Holder: friend, Amount: '30' },
    ]);
    assert.deepEqual((await list(`/token/${items}/holders?id=7`)).rows, [{ Holder: owner, Amount: '40' }, { Holder: friend, Amount: '30' }]);
    const held = (await list(`/address/${friend}/tokens`)).rows.map((row) => [row.Standard, row['Token ID'], row.Amount].join(' '));
    for (const row of ['ERC-721 #0 1', 'ERC-1155 #7 30']) assert.ok(held.includes(row), `${row} in ${held.join('; ')}`);
    await areWhole(explorer, [`/token/${cards}/ids`, `/token/${items}/holders?id=7`]);
  });

  await step('pending transaction becomes replaced', async () => {
    const { address } = chain.stranger;
    const send = async (fields) => node.wallet(chain.stranger).sendTransaction({ to: chain.friend.address, value: 1n, gas: 21_000n, ...fields });
    const nonce = await node.client.getTransactionCount({ address });
    const waiting = await send({ nonce: nonce + 1 });
    const page = await explorer.visit(`/tx/${waiting}`);
    const state = page.locator('#transaction dd .tag').first();
    assert.equal(await state.innerText(), 'pending');
    await isSound(page);
    await until('the page to listen', () => page.listens);
    const { maxFeePerGas, maxPriorityFeePerGas } = await node.client.estimateFeesPerGas();
    const dearer = await send({ nonce: nonce + 1, maxFeePerGas: maxFeePerGas * 4n, maxPriorityFeePerGas: maxPriorityFeePerGas * 4n + 1n });
    await send({ nonce });
    await page.locator('#transaction .tag', { hasText: 'replaced' }).waitFor({ timeout: 30_000 });
    assert.equal(await page.locator(`#transaction dd .value[data-value="${dearer}"]`).count(), 1);
    assert.equal((await node.receipt(dearer)).status, 'success');
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('search redirects to exact hits and lists others', async () => {
    const page = await explorer.visit('/');
    const search = async (text) => {
      await page.goto('/');
      await page.getByRole('searchbox').fill(text);
      await page.getByRole('searchbox').press('Enter');
      await page.waitForLoadState();
      return new URL(page.url()).pathname;
    };
    assert.equal(await search(chain.moved.hash), `/tx/${chain.moved.hash}`);
    assert.equal(await search(receipt.blockHash), `/block/${receipt.blockNumber}`);
    assert.equal(await search(String(receipt.blockNumber)), `/block/${receipt.blockNumber}`);
    assert.match(await search(chain.token.toLowerCase()), /^\/address\/0x/);
    assert.match(await search('GLD'), /^\/token\/0x/);
    assert.equal(await search('no such thing'), '/search');
    assert.match(await page.locator('main').innerText(), /no such thing/);
    await close(page);
  });

  await step('contract can be read without JavaScript', async () => {
    const page = await explorer.visit(`/address/${chain.token}/read`, { script: false });
    const balance = page.locator('article.function').filter({ has: page.locator('h3', { hasText: 'balanceOf' }) });
    await balance.locator('input[name="a0"]').fill(chain.friend.address);
    await balance.getByRole('button').click();
    const answer = page.locator('article.function').filter({ has: page.locator('h3', { hasText: 'balanceOf' }) }).locator('.answer');
    assert.match(await answer.innerText(), /1,?000/);
    await close(page);
  });

  await step('wallet sends a call and the page follows it', async () => {
    const wallet = injected(node.wallet(chain.owner), network.chain.id);
    const page = await explorer.visit(`/address/${chain.token}/write`, { wallet });
    const transfer = page.locator('article.function').filter({ has: page.locator('h3 code', { hasText: /^transfer$/ }) });
    await transfer.locator('input[name="a0"]').fill(chain.stranger.address);
    await transfer.locator('input[name="a1"]').fill('77');
    await transfer.getByRole('button').click();
    await transfer.locator('.answer', { hasText: 'certified' }).waitFor({ timeout: 30_000 });
    assert.deepEqual(page.problems, []);
    assert.equal(wallet.sent.length, 1);
    const { status, logs } = await node.receipt(wallet.sent[0]);
    assert.deepEqual([status, BigInt(logs[0].data)], ['success', 77n]);
    await close(page);
  });

  await step('wallet on another chain is switched and reverts are announced', async () => {
    const wallet = injected(node.wallet(chain.stranger), network.chain.id, { at: 1n, refuses: true });
    const page = await explorer.visit(`/address/${chain.token}/write`, { wallet });
    const transfer = page.locator('article.function').filter({ has: page.locator('h3 code', { hasText: /^transfer$/ }) });
    const answer = (words) => transfer.locator('.answer', { hasText: words }).waitFor({ timeout: 30_000 });
    await transfer.locator('input[name="a0"]').fill(chain.friend.address);
    await transfer.locator('input[name="a1"]').fill('1');
    await transfer.getByRole('button').click();
    await answer('Request rejected in the wallet');
    const [{ chainId, rpcUrls, blockExplorerUrls }] = wallet.told;
    assert.deepEqual([BigInt(chainId), blockExplorerUrls], [BigInt(network.chain.id), [new URL(network.explorer).origin]]);
    assert.ok(network.nodes.some(({ rpc }) => new URL(rpc).href === new URL(rpcUrls[0]).href), rpcUrls[0]);
    await isSound(page);
    wallet.refuses = false;
    await transfer.locator('input[name="a1"]').fill('999999');
    await transfer.getByRole('button').click();
    await answer(/ERC20InsufficientBalance/);
    assert.deepEqual(wallet.sent, []);
    await isSound(page);
    await transfer.getByRole('button', { name: 'Send anyway' }).click();
    await answer(/certified, reverted/);
    assert.equal(wallet.sent.length, 1);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('account history downloads as CSV', async () => {
    const page = await explorer.visit(`/address/${chain.friend.address}/transfers`);
    const [download] = await Promise.all([page.waitForEvent('download', { timeout: 30_000 }), page.getByRole('link', { name: 'CSV' }).click()]);
    assert.equal(download.suggestedFilename(), `transfers-${chain.friend.address}.csv`);
    const [names, ...lines] = (await readFile(await download.path(), 'utf8')).trim().split('\r\n');
    assert.match(names, /^time,block,transaction,direction,from,to,amount,symbol,/);
    const moved = lines.filter((line) => line.includes(chain.moved.hash));
    assert.ok(moved.length === 1 && moved[0].includes(`,in,${chain.owner.address},${chain.friend.address},`) && moved[0].includes(',GLD,'), moved.join('\n'));
    await close(page);
  });

  await step('DAG updates live', async () => {
    const page = await explorer.visit('/dag');
    const newest = () => page.locator('main').innerText();
    const before = await newest();
    await node.receipt(await node.wallet(chain.owner).sendTransaction({ to: chain.friend.address, value: 1n }));
    await until('the picture to change', async () => (await newest()) !== before);
    assert.deepEqual(page.problems, []);
    await close(page);
  });

  await step('DAG moves back by key, slider and number', async () => {
    await until('more rounds than a picture has', async () => {
      const { oldestRound, newestRound } = await ordering();
      if (newestRound - oldestRound > 30) return true;
      await node.receipt(await node.wallet(chain.owner).sendTransaction({ to: chain.friend.address, value: 1n }));
      return false;
    });
    const page = await explorer.visit('/dag');
    const stands = () => page.locator('#dag').evaluate(({ dataset }) => ({ ...dataset }));
    const { oldest } = await stands();
    await page.keyboard.press('ArrowLeft');
    await until('the picture to end before the newest round', async () => {
      const { last, newest } = await stands();
      return Number(last) < Number(newest);
    });
    await page.locator('#slider').fill(oldest);
    await until('the picture to begin with the oldest round', async () =>
      (await stands()).first === oldest && page.url().endsWith(`/dag?round=${oldest}`));
    assert.deepEqual(page.problems, []);
    await close(page);
    const plain = await explorer.visit('/dag', { script: false });
    await plain.locator('#round').fill(oldest);
    await plain.locator('#scrub button').click();
    await plain.waitForURL(({ search }) => search === `?round=${oldest}`);
    assert.equal(await plain.locator('#dag').getAttribute('data-first'), oldest);
    await close(plain);
  });

  await step('missing items have an error page', async () => {
    for (const [path, status, words] of [
      ['/block/999999999', 404, 'Block 999999999 not found'],
      [`/tx/0x${'ab'.repeat(32)}`, 404, 'not found: neither in the indexed blocks'],
      ['/tx/0xnonsense', 400, 'Invalid transaction hash'],
      ['/address/0x12', 400, 'Invalid address'],
      ['/nowhere', 404, 'Page not found: /nowhere'],
    ]) {
      const answer = await fetch(network.explorer + path);
      assert.equal(answer.status, status, path);
      const text = await answer.text();
      assert.ok(text.includes(words), `${path}: ${text}`);
    }
    const page = await explorer.visit(`/tx/0x${'ab'.repeat(32)}`);
    assert.equal(page.answer.status(), 404);
    await isSound(page);
    await close(page);
  });

  await step('content security policy forbids foreign content', async () => {
    const answer = await fetch(network.explorer);
    const policy = answer.headers.get('content-security-policy');
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
  });
});

/**
 * An injected wallet: an EIP-1193 provider that keeps its keys. It is on this chain, or on chain `at` and does not know
 * this one. While it `refuses`, its owner rejects all requests.
 */
function injected(wallet, chainId, { at = BigInt(chainId), refuses = false } = {}) {
  const provider = { sent: [], told: [], refuses };
  const knows = () => provider.told.length > 0;
  const refusal = (code, message) => Object.assign(new Error(message), { code });
  const methods = {
    eth_requestAccounts: () => [wallet.account.address],
    eth_accounts: () => [wallet.account.address],
    eth_chainId: () => `0x${at.toString(16)}`,
    wallet_switchEthereumChain([wanted]) {
      if (!knows()) throw refusal(4902, 'Unrecognized chain');
      at = BigInt(wanted.chainId);
    },
    wallet_addEthereumChain([chain]) { provider.told.push(chain); },
    async eth_sendTransaction([{ to, data, value }]) {
      if (provider.refuses) throw refusal(4001, 'User rejected the request.');
      // Without a gas limit the library would estimate gas first.
      const hash = await wallet.sendTransaction({ to, data, value: BigInt(value ?? 0), gas: 500_000n });
      provider.sent.push(hash);
      return hash;
    },
  };
  provider.request = async ({ method, params }) => methods[method](params);
  return provider;
}
