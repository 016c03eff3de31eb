// Runs hardhat with the project in ../hardhat against a chain's first node, in its own process, because a network
// belongs to its configuration. Its compiler is not needed, because the contracts are not Solidity.

import { execFile, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** `keys`: private keys of its accounts, separated by commas; `'remote'` if the node signs. */
export function hardhat(network, keys) {
  const cwd = here('hardhat');
  const env = {
    PATH: process.env.PATH,
    HOME: network.directory,
    HARDHAT_CONFIG: here('hardhat/hardhat.config.cjs'),
    HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true',
    PROJECT: network.directory,
    RPC: network.nodes[0].rpc,
    KEYS: keys,
  };
  return {
    /** Runs a script of the project to its end, and returns its output. */
    async run(script) {
      const flags = ['--config', env.HARDHAT_CONFIG, 'run', '--no-compile', here(`hardhat/${script}`), '--network', 'corniche'];
      const { stdout } = await execute(here('node_modules/.bin/hardhat'), flags, { cwd, env });
      return stdout;
    },
    /** Starts a script that keeps running and receives messages. */
    start: (script) => fork(here(`hardhat/${script}`), { cwd, env }),
  };
}
