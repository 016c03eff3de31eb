// The tour of every client: the same stations in the same order, each with the client's own functions.

import assert from 'node:assert/strict';
import { parseEther } from 'viem';
import { abi, bytecode } from '../../../testnet/js/contracts.js';
import { withNetwork, underEveryEngine } from '../../../testnet/js/network.js';

export { until } from '../../../testnet/js/until.js';
export * from './traces.js';

/** The contract of the tour, which has custom errors. The constructor takes a name, a symbol and `supply`. */
export const token = { abi: abi('erc20'), bytecode: bytecode('erc20') };
export const supply = parseEther('1000000');

/** Stations of the tour. Later ones depend on earlier ones. */
export const STATIONS = [
  'accounts',
  'fees',
  'transfers of types 0, 1 and 2',
  'deploy',
  'call',
  'multicall',
  'access list',
  'simulated blocks',
  'revert reason',
  'refusals',
  'logs',
  'filters',
  'subscription',
  'batch',
  'replace and cancel',
  'trace',
];

/** Stations that use the accounts of a development chain, or its control over blocks. */
const DEVELOPMENT = ['accounts', 'replace and cancel'];

/**
 * Tests one client under every engine. `visit({ network, node, keys, accounts, serves, t })` returns a function for
 * each station, or a sentence with the reason to skip it; a missing station is a failure. `serves(method)` is true if
 * the node has a method. `skip` is the reason if the client is not available here.
 */
export function tour(client, visit, { skip = false } = {}) {
  underEveryEngine(`the tour with ${client}`, { timeout: 120_000, skip }, async (t, engine) => {
    // A development chain has no sequencer. With an explorer the first node serves traces.
    const options = engine === 'neobft' ? { validators: 4, explorer: true } : { dev: true };
    const { network, step } = await withNetwork(t, { ...options, engine });
    const [node] = network.nodes;
    const { result: document } = await node.call('rpc_discover');
    const served = new Set(document.methods.map(({ name }) => name));
    const serves = (...methods) => methods.every((method) => served.has(method));
    const { keys, accounts } = network;
    const stations = await visit({ network, node, keys, accounts, serves, t });
    assert.deepEqual(Object.keys(stations), STATIONS);
    // hardhat's configuration has the accounts.
    const needsDevelopment = (station) => !options.dev && client !== 'hardhat' && DEVELOPMENT.includes(station);
    for (const [station, begin] of Object.entries(stations)) {
      const visited = needsDevelopment(station) ? 'needs accounts or blocks of a development chain' : begin;
      if (typeof visited === 'string') await t.test(station, { skip: visited }, () => {});
      else await step(station, visited);
    }
  });
}
