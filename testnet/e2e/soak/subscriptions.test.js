// Many subscribers on one node: 10,000 without notifications, then 100 that get every block and every transfer of a token, then
// one that does not read. Requirements: the 100 get all notifications in order, regardless of the others; the one that does not
// read is disconnected, and the node's memory does not grow meanwhile. The test prints the costs (docs/performance.md).
//
// IDLE (10,000): number of connections with a subscription each. Needs as many file descriptors here and in the node (ulimit -Hn).

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createHash, randomBytes } from 'node:crypto';
import { encodeFunctionData, parseEther } from 'viem';
import { abi, bytecode } from '../../js/contracts.js';
import { withNetwork, underEveryEngine } from '../../js/network.js';
import { until } from '../../js/until.js';

const idle = Number(process.env.IDLE ?? 10_000);
const busy = Number(process.env.BUSY ?? 100);
const transfers = Number(process.env.TRANSFERS ?? 2_000);
/** Clock ticks per second, as /proc counts them. */
const HERTZ = 100;

underEveryEngine(`${idle} idle and ${busy} busy subscribers`, { timeout: 900_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 1, engine });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const wallet = node.wallet(owner);
  const sockets = [];
  t.after(() => sockets.forEach((socket) => socket.close()));
  const open = async (...subscription) => {
    const socket = await Subscriber.open(node.rpc, subscription);
    sockets.push(socket);
    return socket;
  };
  let token;

  await step('a node with enough connection slots', async () => {
    const room = idle + busy + 100;
    const serve = `[serve]\nconnections = ${room}\nwebsockets = ${room}\nconnections_per_address = ${room}\n`;
    const text = readFileSync(node.config, 'utf8');
    assert.match(text, /^\[serve\]\n/m);
    const keys = /^(connections|websockets|connections_per_address) = .*\n/gm;
    writeFileSync(node.config, text.replace(keys, '').replace('[serve]\n', serve));
    node.kill();
    await node.gone();
    await node.restart();
    const hash = await wallet.deployContract({ abi: abi('erc20'), bytecode: bytecode('erc20'), args: ['Cornice', 'CRN', parseEther('1000000')] });
    ({ contractAddress: token } = await node.receipt(hash));
  });

  /** Half of them wait for logs that never come, half for the node to fall behind, which it does not. */
  await step(`${idle} idle subscribers`, async () => {
    const before = resident(node.pid);
    const used = ticks(node.pid);
    const nobody = ['logs', { address: `0x${'12'.repeat(20)}` }];
    // In groups, because new connections wait in the listener's queue, which is short.
    for (let opened = 0; opened < idle; opened += 100) {
      await Promise.all(Array.from({ length: Math.min(100, idle - opened) }, (_, index) => open(...((opened + index) % 2 === 0 ? nobody : ['syncing']))));
    }
    const after = resident(node.pid);
    t.diagnostic(`opening: ${(((ticks(node.pid) - used) * 1e6) / HERTZ / idle).toFixed(0)} us of processor time each; memory ${before} to ${after} MiB, ${(((after - before) * 1024) / idle).toFixed(1)} KiB each`);
    assert.equal(await metric(node, 'corniche_rpc_subscriptions'), idle);
    const seconds = 30;
    const share = await shareOfCore(node.pid, seconds);
    t.diagnostic(`idle: ${share.toFixed(2)} % of a core over ${seconds} s, ${resident(node.pid)} MiB`);
  });

  /** Transfers by this many concurrent requests; each subscriber to the token's logs gets all of them. */
  const load = async (listeners) => {
    const first = await node.client.getTransactionCount({ address: owner.address });
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: 1n };
    const raw = [];
    for (let index = 0; index < transfers; index += 1) {
      const data = encodeFunctionData({ abi: abi('erc20'), functionName: 'transfer', args: [friend.address, BigInt(index + 1)] });
      raw.push(await owner.signTransaction({ type: 'eip1559', chainId: network.chain.id, nonce: first + index, gas: 100_000n, to: token, data, ...fees }));
    }
    for (const listener of listeners) listener.clear();
    const [used, started] = [ticks(node.pid), Date.now()];
    let last;
    for (let at = 0; at < raw.length; ) {
      const batch = raw.slice(at, at + 100).map((transaction, id) => ({ jsonrpc: '2.0', id, method: 'eth_sendRawTransaction', params: [transaction] }));
      const { answer } = await node.post(batch);
      const refused = answer.findIndex(({ error }) => error);
      if (refused >= 0) assert.match(answer[refused].error.message, /txpool is full|account limit exceeded/);
      const taken = refused < 0 ? batch.length : refused;
      at += taken;
      if (taken > 0) last = answer[taken - 1].result;
      // The pool limits transactions per sender, and has room again after some are executed.
      if (refused >= 0) await node.receipt(last);
    }
    const receipt = await node.receipt(last);
    assert.equal(receipt.status, 'success');
    const logs = listeners.filter(({ topic }) => topic === 'logs');
    await until(`all ${logs.length} to have heard all`, () => logs.every(({ messages }) => messages.length >= transfers), { deadlineMs: 120_000 });
    const cpu = ((ticks(node.pid) - used) * 1e6) / HERTZ;
    const took = Date.now() - started;
    const messages = listeners.reduce((sum, listener) => sum + listener.messages.length, 0);
    // All of them, once, in order.
    for (const { messages } of logs) {
      assert.deepEqual(messages.map(({ data }) => Number(data)), Array.from({ length: transfers }, (_, index) => index + 1));
    }
    const heads = listeners.filter(({ topic }) => topic === 'newHeads');
    await until('all heads to be told', () => heads.every(({ messages }) => Number(messages.at(-1)?.number) >= Number(receipt.blockNumber)));
    for (const { messages } of heads) {
      const numbers = messages.map(({ number }) => Number(number));
      assert.deepEqual(numbers, Array.from(numbers, (_, index) => numbers[0] + index));
    }
    return `${transfers} transfers in ${took} ms, ${messages} messages told; ${(cpu / transfers).toFixed(0)} us of processor time a transfer; ${resident(node.pid)} MiB`;
  };

  const listeners = [];
  await step(`${busy} busy subscribers`, async () => {
    t.diagnostic(`nobody busy: ${await load([])}`);
    for (let index = 0; index < busy; index += 1) {
      listeners.push(index % 2 === 0 ? await open('logs', { address: token }) : await open('newHeads'));
    }
    for (let round = 0; round < 3; round += 1) t.diagnostic(`${busy} busy: ${await load(listeners)}`);
  });

  await step('a stalled reader is disconnected', async () => {
    const dropped = await metric(node, 'corniche_rpc_slow_subscribers_total');
    const slow = await open('newPendingTransactions', true);
    const before = resident(node.pid);
    slow.stopReading();
    const stopped = Date.now();
    t.diagnostic(`beside one that does not read: ${await load(listeners)}`);
    let rounds = 1;
    await until(
      'the slow one to be dropped',
      async () => {
        // It is disconnected when it is too far behind, or after too long without reading.
        await load(listeners);
        rounds += 1;
        return (await metric(node, 'corniche_rpc_slow_subscribers_total')) > dropped;
      },
      { deadlineMs: 240_000 },
    );
    t.diagnostic(`it was dropped ${Math.round((Date.now() - stopped) / 1000)} s after it read for the last time; all others heard all of ${rounds * transfers} transfers`);
    const after = resident(node.pid);
    t.diagnostic(`memory ${before} MiB before, ${after} MiB after`);
    assert.ok(after < before + 200, `memory grew from ${before} to ${after} MiB`);
    assert.equal(await metric(node, 'corniche_rpc_subscriptions'), idle + busy);
  });

  await step('closed connections leave no subscriptions', async () => {
    for (const socket of sockets) socket.close();
    await until('all to be gone', async () => (await metric(node, 'corniche_rpc_subscriptions')) === 0);
    assert.equal(await metric(node, 'corniche_rpc_websockets'), 0);
    t.diagnostic(`at the end: ${resident(node.pid)} MiB`);
  });
});

/** A minimal WebSocket with one subscription: ten thousand of them run beside the measured node. */
class Subscriber {
  static open(rpc, subscription) {
    const { hostname, port } = new URL(rpc);
    const socket = connect(Number(port), hostname);
    const subscriber = new Subscriber(socket, subscription[0]);
    const key = randomBytes(16).toString('base64');
    const head = `GET / HTTP/1.1\r\nhost: ${hostname}:${port}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`;
    socket.setNoDelay(true);
    return new Promise((resolve, reject) => {
      subscriber.opened = resolve;
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the node closed the connection')));
      socket.on('data', (data) => subscriber.take(data, key));
      socket.write(head);
      subscriber.request = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: subscription });
    });
  }

  constructor(socket, topic) {
    Object.assign(this, { socket, topic, messages: [], buffer: Buffer.alloc(0), upgraded: false });
  }

  /** Discards earlier notifications. */
  clear() {
    this.messages = [];
  }

  take(data, key) {
    this.buffer = this.buffer.length === 0 ? data : Buffer.concat([this.buffer, data]);
    if (!this.upgraded) {
      const end = this.buffer.indexOf('\r\n\r\n');
      if (end < 0) return;
      const accepted = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      assert.ok(this.buffer.subarray(0, end).includes(accepted), String(this.buffer));
      this.buffer = this.buffer.subarray(end + 4);
      this.upgraded = true;
      this.send(1, Buffer.from(this.request));
    }
    for (let frame = this.frame(); frame !== undefined; frame = this.frame()) this.hear(frame);
    // Otherwise the remainder would keep the whole received buffer alive.
    if (this.buffer.length === 0) this.buffer = Buffer.alloc(0);
  }

  /** The next complete frame; the node's frames are not masked. */
  frame() {
    const { buffer } = this;
    if (buffer.length < 2) return undefined;
    const short = buffer[1] & 0x7f;
    const head = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (buffer.length < head) return undefined;
    const length = short < 126 ? short : short === 126 ? buffer.readUInt16BE(2) : Number(buffer.readBigUInt64BE(2));
    if (buffer.length < head + length) return undefined;
    this.buffer = buffer.subarray(head + length);
    return { opcode: buffer[0] & 0x0f, payload: buffer.subarray(head, head + length) };
  }

  hear({ opcode, payload }) {
    if (opcode === 9) return this.send(10, payload);
    if (opcode !== 1) return undefined;
    const message = JSON.parse(payload);
    if (message.method === 'eth_subscription') return void this.messages.push(message.params.result);
    if (message.error) return void this.socket.destroy(new Error(message.error.message));
    this.socket.removeAllListeners('close').removeAllListeners('error').on('error', () => {});
    return this.opened(this);
  }

  /** A client's frames must be masked: with zeros, which change nothing. */
  send(opcode, payload) {
    const head = payload.length < 126 ? Buffer.from([0x80 | opcode, 0x80 | payload.length]) : Buffer.from([0x80 | opcode, 0xfe, payload.length >> 8, payload.length & 0xff]);
    this.socket.write(Buffer.concat([head, Buffer.alloc(4), payload]));
  }

  stopReading() {
    this.socket.removeAllListeners('data').pause();
  }

  close() {
    this.socket.destroy();
  }
}

function resident(pid) {
  return Math.round(Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]) / 1024);
}

/** Total processor time of all threads of a process. */
function ticks(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

async function shareOfCore(pid, seconds) {
  const before = ticks(pid);
  const started = process.hrtime.bigint();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return ((ticks(pid) - before) * 100 * 1e9) / HERTZ / Number(process.hrtime.bigint() - started);
}

async function metric(node, name) {
  const text = await (await fetch(node.metrics)).text();
  return Number(text.match(new RegExp(`^${name} (\\d+)`, 'm'))?.[1] ?? assert.fail(`no metric ${name}`));
}
