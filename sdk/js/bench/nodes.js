// The compared nodes: how each is started, and its resource usage.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const repository = join(here, '../../..');
const { resolve } = createRequire(import.meta.url);
const HERTZ = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

export const corniche = process.env.CORNICHE_BIN ?? join(repository, 'target/debug/corniche');
const geth = process.env.GETH;

/** Commands by name. Each serves JSON-RPC on a local port, in the mode that executes a transaction at once. */
export const COMMANDS = {
  // With DATA, a persistent directory, it waits for the disk.
  corniche: (port) => [corniche, 'dev', '--port', port, '--no-explorer', ...(process.env.DATA ? ['--data', process.env.DATA] : [])],
  anvil: (port) => [resolve('@foundry-rs/anvil-linux-amd64/bin/anvil'), '--port', port, '--silent'],
  hardhat: (port) => [process.execPath, resolve('hardhat/internal/cli/bootstrap'), 'node', '--port', port],
  // Its data is in memory, like that of the others.
  geth: (port) => [geth, '--dev', '--http', '--http.port', port, '--ipcdisable', '--verbosity', '0'],
};

/** Names of the nodes that are available here. */
export const available = Object.keys(COMMANDS).filter((name) => name !== 'geth' || (geth && existsSync(geth)));

export class Peer {
  /** Starts a node and waits until it responds; `startMs` is the duration. */
  static async start(name) {
    const port = await freePort();
    const [command, ...flags] = COMMANDS[name](port).map(String);
    const begun = process.hrtime.bigint();
    const env = { ...process.env, HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true' };
    const child = spawn(command, flags, { cwd: here, env, stdio: ['ignore', 'ignore', 'ignore'] });
    const peer = new Peer(name, child, `http://127.0.0.1:${port}`);
    for (;;) {
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
      if (await peer.call('eth_chainId').then(Boolean, () => false)) break;
      await new Promise((settle) => setTimeout(settle, 5));
    }
    peer.startMs = Number(process.hrtime.bigint() - begun) / 1e6;
    return peer;
  }

  constructor(name, child, url) {
    Object.assign(this, { name, child, url });
  }

  async call(method, ...params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(this.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await response.json();
    if (error) throw new Error(`${this.name}: ${method}: ${error.message}`);
    return result;
  }

  /** Processor time of all threads so far, in seconds. */
  processor() {
    const fields = readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return (Number(fields[11]) + Number(fields[12])) / HERTZ;
  }

  /** Memory in MiB: current, or the peak with 'VmHWM'. */
  memory(which = 'VmRSS') {
    return Number(readFileSync(`/proc/${this.child.pid}/status`, 'utf8').match(new RegExp(`^${which}:\\s+(\\d+)`, 'm'))[1]) / 1024;
  }

  async stop() {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}

function freePort() {
  return new Promise((settle) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => settle(port));
    });
  });
}
