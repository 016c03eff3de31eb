// Runs Foundry's `cast`, one process for each command.

import { execFile, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

/** Path of the binary: CAST, or the npm package for Linux on x86-64; otherwise undefined. */
export const binary = process.env.CAST ?? brought();

function brought() {
  try {
    return createRequire(import.meta.url).resolve('@foundry-rs/cast-linux-amd64/bin/cast');
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

export class Cast {
  /** `home` is a directory without any user configuration. */
  constructor(rpc, home) {
    this.env = { PATH: process.env.PATH, HOME: home, NO_COLOR: '1', ETH_RPC_URL: rpc, ETH_RPC_TIMEOUT: '60' };
  }

  /** Returns the output of a command. If it fails, the error message is its error output. */
  run(...args) {
    const { env } = this;
    return new Promise((resolve, reject) =>
      execFile(binary, args.map(String), { env }, (error, stdout, stderr) => {
        if (error) reject(new Error(stderr || error.message));
        else resolve(stdout.trim());
      }),
    );
  }

  async json(...args) {
    return JSON.parse(await this.run(...args, '--json'));
  }

  /** Sends a request and returns the node's raw result. */
  async rpc(method, ...params) {
    return JSON.parse(await this.run('rpc', '--raw', method, JSON.stringify(params)));
  }

  /** Starts a command that does not end by itself. Returns its lines, and `end`. */
  watch(rpc, ...args) {
    const child = spawn(binary, args.map(String), { env: { ...this.env, ETH_RPC_URL: rpc }, stdio: ['ignore', 'pipe', 'inherit'] });
    // The iterator, unlike the interface, buffers lines that are not read yet.
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { lines, end: () => child.kill() };
  }
}
