// Random requests from the node's own document, over HTTP and WebSocket concurrently. Every response must be a result
// that matches its schema, or an error with a documented code, and the node's state must not change.
//
// CALLS: number of requests (4,000), or as many as fit into RUN_SECONDS. SEED repeats the choices of a run, but not the
// order of responses.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import Ajv from 'ajv';
import WebSocket from 'ws';
import { encodeFunctionData } from 'viem';
import { withNetwork, underEveryEngine } from '../../../testnet/js/network.js';
import { eip1559, unprotected } from '../../../testnet/js/transactions.js';
import { Random, Requests } from '../lib/random.js';
import { MULTICALL3, multicall3Abi, supply, token } from '../lib/tour.js';

const seconds = Number(process.env.RUN_SECONDS ?? 0);
const calls = seconds > 0 ? Infinity : Number(process.env.CALLS ?? 4_000);
const seed = Number(process.env.SEED ?? 7);
const WORKERS = 8;
/** Allowed growth over the memory after the first calls. Allocators keep the memory of a burst; a leak keeps growing. */
const GROWTH_MIB = 96;

/** Error codes from the table in docs/rpc.md. */
const documented = new Set(
  [...readFileSync(new URL('../../../docs/rpc.md', import.meta.url), 'utf8').matchAll(/^\| (−|-)?(\d+)(?: to (−|-)?(\d+))? \|/gm)].flatMap(
    ([, minus, from, , to = from]) => Array.from({ length: Math.abs(to - from) + 1 }, (_, step) => (minus ? -1 : 1) * (Math.min(from, to) + step)),
  ),
);

underEveryEngine(`random calls (seed ${seed})`, { timeout: (seconds + 240) * 1000, except: ['neobft'] }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { dev: true, engine });
  const [node] = network.nodes;
  const { result: document } = await node.call('rpc_discover');
  // Excludes methods that move a development chain's clock, mine thousands of blocks or revert, because they would
  // affect all others.
  document.methods = document.methods.filter(({ name }) => !/^(evm|hardhat|anvil)_|^eth_sendTransaction$/.test(name));
  assert.ok(documented.has(-32602) && documented.size > 8);
  const random = new Random(seed);
  const requests = new Requests(document, await corpusOf(network, node), random);
  const judge = new Judge(document, requests.corpus);
  const end = Date.now() + seconds * 1000;
  let sent = 0;
  let settled;

  /** A client that sends the next request after each response. */
  const work = async (ask) => {
    while (sent < calls && (seconds === 0 || Date.now() < end)) {
      sent += 1;
      const id = sent + 1;
      if (sent === 1_000) settled = residentMiB(node.pid);
      const made = requests.next();
      const text = typeof made.request === 'string' ? made.request : JSON.stringify({ jsonrpc: '2.0', id, ...made.request });
      judge.look(made, text, await ask(text));
    }
  };

  await step('every answer is one of those that the document names', async () => {
    const socket = new Socket(node.rpc);
    await Promise.all([...Array.from({ length: WORKERS }, () => work((text) => post(node.rpc, text))), work((text) => socket.ask(text))]);
    socket.close();
    t.diagnostic(`${sent} requests: ${judge.told()}`);
  });

  await step('every method was answered with a result at least once', () => {
    const never = document.methods.map(({ name }) => name).filter((name) => !judge.results.has(name) && !NEVER.has(name));
    assert.deepEqual(never, []);
  });

  await step('the node lives on, and is no larger', async () => {
    const resident = residentMiB(node.pid);
    t.diagnostic(`resident: ${settled} MiB after 1,000 requests, ${resident} MiB at the end`);
    assert.ok(resident < settled + GROWTH_MIB, `${settled} MiB grew to ${resident} MiB`);
    assert.doesNotMatch(readFileSync(node.log, 'utf8'), /panicked|internal error/);
    const [account] = network.accounts;
    const nonce = await node.client.getTransactionCount({ address: account.address });
    const raw = await eip1559(account, { chainId: network.chain.id, nonce });
    assert.ok(Number.isInteger(nonce) && (await node.call('eth_sendRawTransaction', raw)), 'it takes transactions');
    assert.equal(await node.client.getChainId(), network.chain.id);
  });
});

/** Methods whose results depend on earlier requests. */
const NEVER = new Set(['eth_subscribe', 'eth_unsubscribe', 'eth_sendRawTransaction', 'eth_sendRawTransactionSync']);

/** Checks responses, and counts them. */
class Judge {
  constructor(document, corpus) {
    const ajv = new Ajv({ strict: true, strictTypes: false, strictRequired: false });
    ajv.addKeyword('components');
    // References within the document resolve to this root schema.
    ajv.addSchema({ $id: 'openrpc', components: document.components }, undefined, undefined, false);
    this.validators = new Map(document.methods.map(({ name, result }) => [name, ajv.compile(absolute(result.schema))]));
    this.corpus = corpus;
    this.results = new Set();
    this.counts = new Map();
  }

  /** Responses over the `socket` have no status. */
  look({ kind, method, request }, text, { status, answer }) {
    const asked = `${kind} ${text.slice(0, 2000)}\nanswered ${status} ${answer.slice(0, 2000)}`;
    assert.ok(status === undefined || status === 200, asked);
    const parsed = parse(answer, asked);
    for (const one of Array.isArray(parsed) ? parsed : [parsed]) {
      // A notification has no response, alone or in a batch.
      if (one === undefined) continue;
      assert.equal(one.jsonrpc, '2.0', asked);
      assert.ok('result' in one !== 'error' in one, asked);
      if (one.error) this.error(one.error, kind, asked);
      else if (typeof request !== 'string') this.result(method, request, one.result, asked);
    }
    // An invalid request has no id.
    if (typeof request !== 'string') assert.ok(parsed.id === idOf(text) || (parsed.id === null && [-32600, -32700].includes(parsed.error.code)), asked);
  }

  error({ code, message, data, ...more }, kind, asked) {
    assert.ok(documented.has(code) && code !== -32603, asked);
    assert.ok(typeof message === 'string' && message.length > 0 && message.length < 4_000, asked);
    assert.deepEqual(more, {}, asked);
    // A request that the document allows is parsed, although it may be rejected.
    if (kind === 'valid') assert.doesNotMatch(message, /^(invalid argument|missing value|too many arguments|non-array args|parse error)/, asked);
    this.count(`${kind} ${code}`);
  }

  result(method, request, result, asked) {
    if (request.method !== method.name) return;
    const validate = this.validators.get(method.name);
    assert.ok(validate(result), `${asked}\n${JSON.stringify(validate.errors?.slice(0, 3))}`);
    this.results.add(method.name);
    this.count('results');
    if (method.name.startsWith('eth_new')) this.corpus.filters.push(result);
    if (this.corpus.filters.length > 50) this.corpus.filters.splice(0, 25);
  }

  count(what) {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  told() {
    return [...this.counts].sort().map(([what, count]) => `${what}: ${count}`).join(', ');
  }
}

/** Rewrites references so that ajv resolves them in the document. */
function absolute(schema) {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openrpc#/'));
}

function parse(text, asked) {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return assert.fail(asked);
  }
}

async function post(url, body) {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return { status: response.status, answer: await response.text() };
}

/** Returns the id of a valid request; otherwise undefined. */
function idOf(text) {
  try {
    const { jsonrpc, id } = JSON.parse(text);
    return jsonrpc === '2.0' && id > 1 ? id : undefined;
  } catch {
    return undefined;
  }
}

/** A WebSocket that reconnects when the node closes it. Ignores notifications. */
class Socket {
  constructor(rpc) {
    this.url = rpc.replace(/^http/, 'ws');
  }

  async ask(text) {
    if (this.socket?.readyState !== WebSocket.OPEN) await this.open();
    // Responses come in any order, and an invalid request or a notification may get none. Then the response to a second
    // request suffices.
    const behind = JSON.stringify({ jsonrpc: '2.0', id: 'behind', method: 'eth_chainId' });
    const id = idOf(text);
    return new Promise((resolve, reject) => {
      let answer = '';
      this.socket.removeAllListeners();
      this.socket.on('error', () => {});
      this.socket.on('close', (code) => (code === 1006 ? reject(new Error(`the node hung up after ${text.slice(0, 2000)}`)) : resolve({ answer })));
      this.socket.on('message', (data) => {
        const told = String(data);
        const { id: toldId, method, error } = parse(told, told);
        if (method === 'eth_subscription') return;
        if (toldId === 'behind' ? id === undefined : toldId === id) resolve({ answer: toldId === 'behind' ? answer : told });
        else if (toldId === null && error && id !== undefined) resolve({ answer: told });
        else if (toldId !== 'behind') answer = told;
      });
      this.socket.send(text);
      this.socket.send(behind);
    });
  }

  open() {
    this.socket = new WebSocket(this.url);
    return new Promise((resolve, reject) => this.socket.once('open', resolve).once('error', reject));
  }

  close() {
    this.socket?.terminate();
  }
}

function residentMiB(pid) {
  return Math.round(Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]) / 1024);
}

/** Creates a small chain with a token and with successful and failed transfers. Returns data for requests about it. */
async function corpusOf(network, node) {
  const [owner, friend, stranger, other] = network.accounts;
  const wallet = node.wallet(owner);
  const { contractAddress } = await node.receipt(await wallet.deployContract({ ...token, args: ['Cornice', 'CRN', supply] }));
  const data = (functionName, ...args) => encodeFunctionData({ abi: token.abi, functionName, args });
  const receipts = [];
  for (const call of [data('transfer', friend.address, 5n), data('approve', friend.address, 5n), data('transferFrom', stranger.address, friend.address, 1n)]) {
    receipts.push(await node.receipt(await wallet.sendTransaction({ to: contractAddress, data: call, gas: 200_000n })));
  }
  const chainId = network.chain.id;
  const raw = await Promise.all([
    ...Array.from({ length: 5 }, (_, nonce) => eip1559(friend, { chainId, nonce, value: 1n })),
    eip1559(other, { chainId, nonce: 2 }),
    eip1559(other, { chainId, nonce: 0, to: null, gas: 3_000_000n, data: token.bytecode }),
    eip1559(other, { chainId: 1, nonce: 0 }),
    unprotected(other, {}),
  ]);
  const parts = [{ target: contractAddress, allowFailure: true, callData: data('name') }];
  return {
    addresses: [...network.accounts.slice(0, 4).map(({ address }) => address), contractAddress, MULTICALL3, `0x${'00'.repeat(20)}`, `0x${'00'.repeat(19)}02`],
    hashes: receipts.flatMap(({ transactionHash, blockHash }) => [transactionHash, blockHash]),
    calls: [
      { from: owner.address, to: contractAddress, data: data('transfer', friend.address, 7n) },
      { from: stranger.address, to: contractAddress, input: data('transfer', friend.address, 7n) },
      { to: MULTICALL3, input: encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args: [parts] }) },
      { from: owner.address, to: friend.address, value: '0x1', gas: '0x5208' },
      { from: owner.address, data: token.bytecode },
    ],
    bytes: [
      '0x',
      ...raw,
      data('balanceOf', owner.address),
      data('transfer', friend.address, 7n),
      encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args: [parts] }),
      token.bytecode,
    ],
    codes: [await node.client.getCode({ address: contractAddress }), await node.client.getCode({ address: MULTICALL3 }), '0x', '0xef', '0x6001'],
    slots: [`0x${'00'.repeat(32)}`, `0x${'00'.repeat(31)}01`, `0x${'ff'.repeat(32)}`],
    filters: [],
  };
}
