// The wallet script with a simulated wallet, server and clock: its messages after a rejection, and how long it polls
// the status of a transaction.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { Stage } from '../lib/stage.js';

const source = readFileSync(new URL('../../src/pages/account/texts/wallet.rs', import.meta.url), 'utf8');
const TEXTS = { reverted: 'reverted', ...Object.fromEntries([...source.matchAll(/\(\s*"(\w+)",\s*"(.*)",?\s*\),/g)].map(([, name, text]) => [name, text])) };

const ACCOUNT = `0x${'11'.repeat(20)}`;
const HASH = `0x${'ab'.repeat(32)}`;
const CHAIN = '0x7';
const RPC = 'http://127.0.0.1:8545';

const quoted = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
const body = (rpc) => `
  <section id="wallet" data-chain-id="7" data-currency="CRN" data-name="Corniche" ${rpc ? `data-rpc="${rpc}"` : ''} data-texts="${quoted(JSON.stringify(TEXTS))}">
    <p id="wallet-says" role="status"></p><button id="connect" hidden>Connect</button>
  </section>
  <form action="/address/0x12/write" data-function="f"><div class="field"><input id="f-0" name="a0" value="5"></div><button>Send</button>
    <div class="answer" role="status"></div></form>`;

/** Runs in the page: adds a wallet with given responses and rejections. */
function putWallet({ account, chain, ...given }) {
  const wallet = { asked: [], chain, ...given };
  const refusal = (error) => { throw Object.assign(new Error(error.message), error); };
  const methods = {
    eth_accounts: () => [],
    eth_requestAccounts: () => wallet.connects ?? [account],
    eth_chainId: () => wallet.chain,
    wallet_switchEthereumChain([{ chainId }]) {
      if (!wallet.knows) refusal(wallet.unknown ?? { code: 4902, message: 'unknown chain' });
      wallet.chain = chainId;
    },
    wallet_addEthereumChain() { wallet.knows = true; if (wallet.goes) wallet.chain = '0x7'; },
    eth_sendTransaction: () => `0x${'ab'.repeat(32)}`,
  };
  window.wallet = wallet;
  window.ethereum = {
    on() {},
    async request({ method, params }) {
      wallet.asked.push([method, ...params]);
      if (wallet.refuses?.[method]) refusal(wallet.refuses[method]);
      return methods[method](params);
    },
  };
}

test('wallet calls', { timeout: 120_000 }, async (t) => {
  const stage = await Stage.open(t);
  const call = { to: `0x${'12'.repeat(20)}`, data: '0x1234', value: '0x0', warning: null };

  const open = async (t, wallet = {}, { url = 'http://localhost/address/0x12/write', rpc = RPC } = {}) => {
    const given = { account: ACCOUNT, chain: CHAIN, ...wallet };
    const page = await stage.page(t, url, body(rpc), ['app.js', 'wallet.js'], { prepare: putWallet, given });
    await page.answers(200, JSON.stringify(call));
    page.press = async () => {
      await page.locator('form button').click();
      await page.pass(0);
    };
    page.says = () => page.locator('.answer').innerText();
    page.wallet = (of) => page.evaluate((of) => window.wallet.asked.filter(([method]) => method === of).map(([, given]) => given), of);
    /** Sets the status of the transaction. */
    page.stands = (told) => page.answers(200, JSON.stringify(told));
    return page;
  };

  /** Checks that nothing was sent, and the message. */
  const nothingSent = async (page, text) => {
    assert.equal(await page.says(), text);
    assert.deepEqual(await page.wallet('eth_sendTransaction'), []);
    assert.deepEqual(page.problems, []);
  };

  await t.test('call is sent from the simulated account on the page\'s chain', async (t) => {
    const page = await open(t);
    await page.press();
    const { to, data, value } = call;
    assert.deepEqual(await page.wallet('eth_sendTransaction'), [{ from: ACCOUNT, to, data, value, chainId: CHAIN }]);
    assert.deepEqual((await page.asked()).map(([, path]) => path).slice(0, 2), ['/address/0x12/encode', `/tx/${HASH}/status`]);
    assert.equal(await page.locator('.answer a').getAttribute('href'), `/tx/${HASH}`);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Send', 'the focus stays');
    assert.deepEqual(page.problems, []);
  });

  await t.test('rejections have messages', async (t) => {
    const nested = { code: -32603, message: 'Internal error', data: { originalError: { code: 4001 } } };
    for (const [refuses, text] of [
      [{ eth_requestAccounts: { code: 4001, message: 'User rejected the request.' } }, TEXTS.declined],
      [{ eth_sendTransaction: { code: 4001, message: 'User rejected the request.' } }, TEXTS.declined],
      [{ eth_sendTransaction: nested }, TEXTS.declined],
      [{ eth_requestAccounts: { code: -32002, message: 'already pending' } }, TEXTS.busy],
      [{ eth_sendTransaction: { code: -32000, message: '<b>insufficient funds</b>' } }, TEXTS.refused.replace('{}', '<b>insufficient funds</b>')],
      [{ eth_sendTransaction: { code: -32000, message: 'A'.repeat(5_000) } }, TEXTS.refused.replace('{}', 'A'.repeat(300))],
    ]) {
      const page = await open(t, { refuses });
      await page.press();
      assert.equal(await page.says(), text);
      assert.deepEqual(page.problems, []);
      // A retry is possible.
      await page.evaluate(() => { delete window.wallet.refuses; });
      await page.press();
      assert.match(await page.says(), /^Sent: /);
    }
    const page = await open(t, { connects: [] });
    await page.press();
    await nothingSent(page, TEXTS.noAccount);
  });

  await t.test('failed connection has a message', async (t) => {
    for (const [error, text] of [[{ code: 4001, message: 'no' }, TEXTS.declined], [{ code: 4100, message: 'locked' }, TEXTS.unconnected.replace('{}', 'locked')]]) {
      const page = await open(t, { refuses: { eth_requestAccounts: error } });
      await page.locator('#connect').click();
      await page.pass(0);
      assert.equal(await page.locator('#wallet-says').innerText(), text);
      assert.ok(await page.locator('#connect').isVisible());
    }
  });

  await t.test('wallet switches the chain or nothing is sent', async (t) => {
    const page = await open(t, { chain: '0x1', knows: true });
    await page.press();
    assert.equal((await page.wallet('eth_sendTransaction')).length, 1);
    for (const error of [{ code: 4001, message: 'no' }, { code: 4200, message: 'unsupported' }]) {
      const stays = await open(t, { chain: '0x1', refuses: { wallet_switchEthereumChain: error } });
      await stays.press();
      await nothingSent(stays, TEXTS.wrongChain.replace('{}', '7'));
      assert.deepEqual(await stays.wallet('wallet_addEthereumChain'), []);
    }
  });

  await t.test('unknown chain is added to the wallet', async (t) => {
    for (const wallet of [{ goes: true }, {}, { unknown: { code: -32603, message: '', data: { originalError: { code: 4902 } } } }]) {
      const page = await open(t, { chain: '0x1', ...wallet });
      await page.press();
      assert.deepEqual(await page.wallet('wallet_addEthereumChain'), [{
        chainId: CHAIN, chainName: 'Corniche 7', nativeCurrency: { name: 'CRN', symbol: 'CRN', decimals: 18 }, rpcUrls: [RPC],
        blockExplorerUrls: ['http://localhost'],
      }]);
      assert.equal((await page.wallet('eth_sendTransaction')).length, 1);
    }
  });

  await t.test('remote node URL is not shared', async (t) => {
    const elsewhere = 'http://explorer.test/address/0x12/write';
    for (const where of [{ rpc: null }, { url: elsewhere }, { url: elsewhere, rpc: null }]) {
      const page = await open(t, { chain: '0x1' }, where);
      await page.press();
      await nothingSent(page, TEXTS.noChain.replace('{}', '7'));
      assert.deepEqual(await page.wallet('wallet_addEthereumChain'), []);
    }
  });

  await t.test('reverting call requires confirmation', async (t) => {
    const page = await open(t);
    await page.answers(200, JSON.stringify({ ...call, warning: 'ERC20InsufficientBalance(<b>)' }));
    await page.press();
    await nothingSent(page, TEXTS.undone.replace('{}', 'ERC20InsufficientBalance(<b>)'));
    assert.equal(await page.locator('form button').innerText(), TEXTS.anyway);
    await page.locator('input').fill('6');
    assert.equal(await page.says(), '');
    assert.equal(await page.locator('form button').innerText(), 'Send');
    await page.press();
    await nothingSent(page, TEXTS.undone.replace('{}', 'ERC20InsufficientBalance(<b>)'));
    await page.press();
    assert.equal((await page.wallet('eth_sendTransaction')).length, 1);
  });

  await t.test('explorer errors have messages', async (t) => {
    for (const [status, text] of [[0, TEXTS.unreachable], [429, TEXTS.answered.replace('{}', '429')]]) {
      const page = await open(t);
      await page.answers(status, '<p>');
      await page.press();
      await nothingSent(page, text);
    }
  });

  await t.test('field error is shown once at its field', async (t) => {
    const page = await open(t);
    await page.answers(422, JSON.stringify({ field: 'a0', problem: 'invalid uint256' }));
    for (let count = 0; count < 2; count += 1) {
      await page.press();
      const input = page.locator('input');
      const { id, name } = await input.evaluate((field) => ({ id: field.getAttribute('aria-describedby'), name: document.activeElement.id }));
      assert.deepEqual([await page.locator(`#${id}`).innerText(), name, await page.locator('.wrong').count()], ['invalid uint256', 'f-0', 1]);
    }
    await page.answers(200, JSON.stringify(call));
    await page.press();
    assert.deepEqual([await page.locator('.wrong').count(), await page.locator('[aria-invalid], [aria-describedby]').count()], [0, 0]);
    assert.deepEqual(page.problems, []);
  });

  await t.test('final transaction is not polled', async (t) => {
    for (const [told, text] of [
      [{ status: 'certified', succeeded: true }, 'certified'],
      [{ status: 'certified', succeeded: false }, 'certified, reverted'],
      [{ status: 'dropped', reason: 'its nonce is used' }, 'dropped its nonce is used'],
      [{ status: 'replaced', by: HASH }, 'replaced'],
    ]) {
      const page = await open(t);
      await page.press();
      await page.stands({ status: 'executed', succeeded: true });
      await page.pass(400);
      assert.match(await page.says(), / executed$/);
      await page.stands(told);
      await page.pass(2_000);
      assert.ok((await page.says()).endsWith(` ${text}`), await page.says());
      const asked = (await page.asked()).length;
      await page.pass(600_000);
      assert.equal((await page.asked()).length, asked);
    }
  });

  await t.test('pending transaction is polled for five minutes', async (t) => {
    const page = await open(t);
    await page.press();
    await page.stands({ status: 'pending' });
    await page.pass(3_600_000);
    assert.ok((await page.says()).endsWith(TEXTS.later), await page.says());
    const times = (await page.asked()).map(([at]) => at);
    assert.ok(times.length < 80 && times.at(-1) <= 300_000, `${times.length} times until ${times.at(-1)}`);
    assert.ok(times.at(-1) - times.at(-2) === 5_000);
  });

  await t.test('unknown transaction and offline explorer have different messages', async (t) => {
    for (const [answer, text] of [[[200, '{"status":"unknown"}'], TEXTS.unheard], [[0], TEXTS.quiet], [[500], TEXTS.quiet], [[-1], TEXTS.quiet]]) {
      const page = await open(t);
      await page.press();
      await page.answers(...answer);
      await page.pass(600_000);
      assert.ok((await page.says()).endsWith(text), await page.says());
      assert.ok((await page.asked()).length < 25);
    }
  });

  await t.test('hidden page pauses polling', async (t) => {
    const page = await open(t);
    await page.press();
    await page.stands({ status: 'pending' });
    await page.pass(1_000);
    await page.hides(true);
    const asked = (await page.asked()).length;
    await page.pass(3_600_000);
    assert.equal((await page.asked()).length, asked);
    await page.stands({ status: 'certified', succeeded: true });
    await page.hides(false);
    await page.pass(0);
    assert.match(await page.says(), / certified$/);
  });

  await t.test('new call ends polling of the previous one', async (t) => {
    const page = await open(t);
    await page.press();
    await page.answers(200, JSON.stringify({ ...call, status: 'pending' }));
    await page.pass(10_000);
    await page.press();
    await page.pass(0);
    const before = (await page.asked()).length;
    // Two poll loops would send twice as many requests.
    await page.pass(100_000);
    assert.ok((await page.asked()).length - before < 35, `${(await page.asked()).length - before}`);
    assert.equal(await page.locator('.answer p').count(), 1);
  });
});
