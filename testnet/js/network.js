// A network of real `corniche` processes in a temporary directory, with methods to inject faults.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createPublicClient, createWalletClient, defineChain, http } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { Links } from './links.js';
import { until } from './until.js';

const run = promisify(execFile);
const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The binary under test. */
export const corniche = process.env.CORNICHE_BIN ?? join(repository, 'target/debug/corniche');

/** The ordering engines to test: ENGINE, or all. */
export const engines = process.env.ENGINE?.split(/[ ,]+/) ?? ['mahi-mahi', 'autobahn', 'neobft'];

/** Defines one test for each engine except for these, and for those that most tests do not know yet; `run` receives the engine's name. */
export function underEveryEngine(name, { except = [], also = [], ...options }, run) {
  const chosen = process.env.ENGINE ? engines : [...engines, ...also];
  for (const engine of chosen.filter((engine) => !except.includes(engine))) test(`${name}, on ${engine}`, options, (t) => run(t, engine));
}

/** The runner counts RPC ports up from the base port. Peers' ports are this much higher. */
export const PEER_PORT_OFFSET = 1000;
export const METRICS_PORT_OFFSET = 2000;

/** Starts a process that prints its address as JSON in its first line. Its standard error goes to `log`. */
export async function started(command, log) {
  const errors = openSync(log, 'a');
  const child = spawn(corniche, command, { stdio: ['ignore', 'pipe', errors] });
  closeSync(errors);
  const lines = createInterface({ input: child.stdout });
  const { done, value: line } = await lines[Symbol.asyncIterator]().next();
  if (done) throw new Error(`${corniche} ${command[0]} ended without output, see ${log}`);
  lines.close();
  // Drains further output, because a full pipe would block the process.
  child.stdout.resume();
  return { child, description: JSON.parse(line) };
}

export class Network {
  /**
   * Starts a network and waits until every node responds and every validator takes part in ordering. `links`: connections can be
   * cut, and the first node keeps its index in sled; `sequencers`, `sequencer` (part that stamps of the first one), `suite`: for an engine with sequencers; `staking`: parameters of
   * the staking contract, none without; `shards`, `gateways`: for engine basil, instead of validators; `explorer`: starts an explorer.
   */
  static async up({ validators, shards, gateways = 1, votes = [], fullNodes = 0, engine = 'mahi-mahi', parameters = [], signatures = 'everyone', sequencers = 1, sequencer = 'process', suite = 1, staking, links = false, explorer = false }) {
    if (!existsSync(corniche)) throw new Error(`${corniche} is missing: \`make build\`, or set CORNICHE_BIN`);
    const directory = mkdtempSync(join(tmpdir(), 'corniche-e2e-'));
    const port = await freePorts(shards ? 6 * shards + gateways : validators + fullNodes);
    const members = shards ? ['--shards', shards, '--gateways', gateways] : ['--validators', validators];
    const size = [...members, '--full-nodes', fullNodes, ...(votes.length > 0 ? ['--votes', votes.join(',')] : [])];
    const order = ['--engine', engine, '--signatures', signatures, ...parameters.flatMap((parameter) => ['--parameter', parameter])];
    const group = ['--sequencers', sequencers, '--sequencer', sequencer, '--suite', suite];
    const stake = staking ? ['--staking', ...staking] : [];
    const flags = [...size, ...order, ...group, ...stake, '--dir', directory, '--base-port', port, ...(explorer ? [] : ['--no-explorer']), '--json'];
    const { stdout } = await run(corniche, ['testnet', 'up', ...flags.map(String)]);
    const network = new Network(directory, JSON.parse(stdout));
    try {
      assert.equal(JSON.parse(stdout).engine, engine);
      await Promise.all(network.nodes.map((node) => node.ready()));
      await Promise.all(network.validators.map((node) => node.ordering()));
      if (links) await network.linkThroughRelays(port + PEER_PORT_OFFSET);
      return network;
    } catch (error) {
      // Open relays and running nodes would keep this process alive.
      await network.down({ failed: true });
      throw error;
    }
  }

  /** `corniche dev`: one process that serves every namespace, the usual target of clients. */
  static async dev({ engine = 'mahi-mahi', flags = [], explorer = false } = {}) {
    if (!existsSync(corniche)) throw new Error(`${corniche} is missing: \`make build\`, or set CORNICHE_BIN`);
    const directory = mkdtempSync(join(tmpdir(), 'corniche-dev-'));
    const log = join(directory, 'dev.log');
    const command = ['dev', '--port', '0', '--engine', engine, '--json', ...(explorer ? [] : ['--no-explorer']), ...flags];
    const { child, description } = await started(command, log);
    const node = { name: 'dev', role: 'validator', rpc: description.rpc, metrics: description.metrics, pid: child.pid, log };
    const network = new Network(directory, { ...description, nodes: [node] });
    network.nodes[0].child = child;
    await network.nodes[0].ready();
    return network;
  }

  constructor(directory, description) {
    this.directory = directory;
    this.chain = defineChain({
      id: Number(description.chainId),
      name: 'Corniche under test',
      nativeCurrency: { name: 'Corniche', symbol: 'CRN', decimals: 18 },
      rpcUrls: { default: { http: [description.nodes[0].rpc] } },
    });
    this.explorer = description.explorer;
    this.nodes = description.nodes.map((node) => new Node(node, this));
    this.sequencers = (description.sequencers ?? []).map((sequencer) => new Sequencer(sequencer, this));
    this.keys = description.accounts.map(({ key }) => key);
    this.accounts = this.keys.map((key) => privateKeyToAccount(key));
    /** File systems that a test mounted for nodes' data. */
    this.disks = [];
  }

  get validators() {
    return this.nodes.filter((node) => node.role === 'validator');
  }

  get fullNodes() {
    return this.nodes.filter((node) => node.role === 'full');
  }

  get gateways() {
    return this.nodes.filter((node) => node.role === 'gateway');
  }

  /** Replicas of a shard. */
  replicas(shard) {
    return this.nodes.filter((node) => node.name.startsWith(`replica-${shard}-`));
  }

  /** Restarts all nodes; each dials the others through relays only. The first changes to sled, so that faults hit both databases. */
  async linkThroughRelays(firstPort) {
    this.links = new Links();
    for (const node of this.nodes) node.kill();
    await Promise.all(this.nodes.map((node) => node.gone()));
    const byPort = new Map(this.nodes.map((node, index) => [firstPort + index, node]));
    for (const node of this.nodes) {
      let text = readFileSync(node.config, 'utf8');
      const [, peers] = text.match(/^peers = \[([^\]]*)\]/m);
      for (const [, port] of peers.matchAll(/\/tcp\/(\d+)\//g)) {
        const relay = await this.links.open(node, byPort.get(Number(port)), Number(port));
        text = text.replaceAll(`/tcp/${port}/p2p/`, `/tcp/${relay}/p2p/`);
      }
      if (node === this.nodes[0]) text = text.replace(/^index = .*$/m, 'index = "sled"');
      // Top-level keys come before the first table.
      writeFileSync(node.config, `learn_addresses = false\n${text}`);
    }
    await Promise.all(this.nodes.map((node) => node.restart()));
  }

  /** Ends every process. After a failed test the directory stays, for its logs. */
  async down({ failed = false } = {}) {
    const processes = [...this.nodes, ...this.sequencers];
    for (const one of processes) if (one.child) one.kill();
    // Processes that this one did not start.
    if (!processes.every((one) => one.child)) {
      await run(corniche, ['testnet', 'down', '--dir', this.directory]).catch((error) => console.error(error.stderr));
    }
    await Promise.all(processes.map((one) => one.gone()));
    this.links?.close();
    for (const disk of this.disks) disk.unmount();
    if (failed) console.error(`logs and data are kept in ${this.directory}`);
    else rmSync(this.directory, { recursive: true, force: true });
  }
}

/** A network for one test, started by `Network.up`, or with `dev` by `Network.dev`, and `step` for its parts. */
export async function withNetwork(t, { dev = false, ...options }) {
  return withSteps(t, await (dev ? Network.dev(options) : Network.up(options)));
}

/** A network that ends with the test, and `step` for the test's parts. If a step failed, its directory stays, for the logs. */
export function withSteps(t, network) {
  let failed = false;
  t.after(() => network.down({ failed }));
  const step = (name, run) =>
    t.test(name, async () => {
      try {
        await run();
      } catch (error) {
        failed = true;
        throw error;
      }
    });
  return { network, step };
}

/** Checks that these nodes have the block of a receipt. */
export const agree = (nodes, { blockNumber, blockHash }) =>
  Promise.all(nodes.map(async (node) => assert.equal((await node.block(blockNumber)).hash, blockHash, node.name)));

/** The receipt in the newest block. A node that lacks this block would give an account's old nonce to its next payment. */
export const newest = (receipts) => receipts.reduce((one, other) => (other.blockNumber > one.blockNumber ? other : one));

/** A process of the network. */
class Process {
  constructor({ name, role, pid, config, dataDir, log }, network) {
    Object.assign(this, { name, role, pid, config, dataDir, log, network });
  }

  /** Sends SIGKILL: no handler runs, nothing is flushed. */
  kill() {
    this.signal('SIGKILL');
  }

  /** Sends SIGSTOP: the process keeps its sockets but does not run. */
  freeze() {
    this.signal('SIGSTOP');
  }

  thaw() {
    this.signal('SIGCONT');
  }

  signal(name) {
    try {
      process.kill(this.pid, name);
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }

  /** Waits until the process has ended and its ports and lock are free. */
  gone() {
    return until(`${this.name} (process ${this.pid}) to end`, () => {
      if (this.child) return this.child.exitCode !== null || this.child.signalCode !== null;
      try {
        process.kill(this.pid, 0);
      } catch (error) {
        return error.code === 'ESRCH';
      }
      // A process that was not waited for keeps its number, in state Z. Its first thread is in that state while others still
      // exit, and the ports are free only after the last one.
      const threads = readdirSync(`/proc/${this.pid}/task`).length;
      return threads === 1 && readFileSync(`/proc/${this.pid}/stat`, 'utf8').split(') ')[1]?.startsWith('Z');
    });
  }

  /** Starts the process with this command. Its output goes to its log. */
  spawn(command, env = process.env) {
    const log = openSync(this.log, 'a');
    this.child = spawn(corniche, command, { stdio: ['ignore', log, log], env });
    closeSync(log);
    this.pid = this.child.pid;
  }
}

/** A sequencer. */
class Sequencer extends Process {
  constructor(description, network) {
    super(description, network);
    this.admin = description.rpc;
    this.metrics = `${this.admin}/metrics`;
  }

  async health() {
    return (await fetch(`${this.admin}/health`)).json();
  }

  /** Restarts the process with its record of used epochs. */
  async restart() {
    this.spawn(['sequencer', '--config', this.config, '--data', this.dataDir]);
    await until(`${this.name} to answer after its restart`, () => this.health());
  }
}

/** A node, accessed from outside. */
export class Node extends Process {
  constructor(description, network) {
    super(description, network);
    const { rpc, metrics } = description;
    Object.assign(this, { rpc, metrics });
    /** Environment variables of a restart, beside those of the test. */
    this.env = {};
    this.client = createPublicClient({ chain: network.chain, transport: http(rpc, { retryCount: 0 }), pollingInterval: 20, cacheTime: 0 });
  }

  /** A wallet that uses only this node. */
  wallet(account) {
    return createWalletClient({ account, chain: this.network.chain, transport: http(this.rpc, { retryCount: 0 }), cacheTime: 0 });
  }

  /** A JSON-RPC request as bytes. Returns the status and the parsed response. */
  async post(body) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(this.rpc, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text });
    const answer = await response.text();
    return { status: response.status, answer: answer === '' ? undefined : JSON.parse(answer) };
  }

  /** One call, without a library: `{ result }` or `{ error }`. */
  async call(method, ...params) {
    return (await this.post({ jsonrpc: '2.0', id: 1, method, params })).answer;
  }

  /**
   * Waits for the receipt. viem's own wait polls again only at the next block, and at this polling rate it may take the response
   * to a request from before the block for one after it. An idle chain has no next block.
   */
  receipt(hash) {
    return until(`${this.name} to have a receipt of ${hash}`, () => this.client.getTransactionReceipt({ hash }));
  }

  ready() {
    return until(`${this.name} to answer`, () => this.hasChain());
  }

  /** True once it has a chain. While it fetches a snapshot, it answers with its progress only. */
  async hasChain() {
    // A replica serves no JSON-RPC.
    if (this.role === 'replica') return (await fetch(this.metrics)).ok;
    return (await this.client.getBlockNumber()) >= 0n;
  }

  /** Waits until this validator orders: it compiles the chain's contracts before it votes, and follows until then. */
  ordering() {
    return until(`${this.name} to take part in ordering`, async () => /^corniche_ordering 1$/m.test(await (await fetch(this.metrics)).text()));
  }

  /** Deletes its data, except for keys and configuration. */
  loseDisk() {
    for (const entry of readdirSync(this.dataDir)) rmSync(join(this.dataDir, entry), { recursive: true });
  }

  /** Restarts the process on the data of its disk. */
  async restart() {
    this.spawn(['node', '--config', this.config, '--data', this.dataDir], { ...process.env, ...this.env });
    const state = await until(`${this.name} to answer after its restart`, async () => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) return 'ended';
      return (await this.hasChain()) && 'up';
    });
    if (state === 'ended') throw new Error(`${this.name} ended with ${this.child.exitCode ?? this.child.signalCode}, see ${this.log}`);
  }

  /** Waits until this node has the block and returns it. */
  block(number) {
    return until(`${this.name} to have block ${number}`, async () => {
      if ((await this.client.getBlockNumber()) < number) return undefined;
      return this.client.getBlock({ blockNumber: number });
    });
  }
}

/**
 * A base port for this many nodes. Below the system's range for outgoing connections, so that no connection takes the port
 * of a node that was killed.
 */
export async function freePorts(count) {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const base = 20_000 + Math.floor(Math.random() * 10_000);
    const offsets = Array.from({ length: count }, (_, offset) => [offset, offset + PEER_PORT_OFFSET, offset + METRICS_PORT_OFFSET]).flat();
    const free = await Promise.all(offsets.map((offset) => isFree(base + offset)));
    if (free.every(Boolean)) return base;
  }
  throw new Error(`no ports are free for ${count} nodes`);
}

function isFree(port) {
  return new Promise((settle) => {
    const server = createServer();
    server.once('error', () => settle(false));
    server.listen(port, '127.0.0.1', () => server.close(() => settle(true)));
  });
}
