// Measures what a development chain costs a test suite: reverting to a snapshot (a fixture before each test), and a
// single transfer until its receipt.
//
// CORNICHE_BIN=… node bench/dev.js
//
// HEIGHT: blocks below the snapshot (10,000). TIMES: reverts and transfers (50). One request at a time over one
// connection; the receipt is polled. With DATA, a directory, the chain is stored there, and waits for the disk.

import { Peer } from './nodes.js';

const height = Number(process.env.HEIGHT ?? 10_000);
const times = Number(process.env.TIMES ?? 50);

const nodes = await Peer.start('corniche');
try {
  const call = async (method, ...params) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(nodes.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await response.json();
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  const [from, to] = await call('eth_accounts');
  const transfer = async () => {
    const hash = await call('eth_sendTransaction', { from, to, value: '0x1', gas: '0x5208' });
    while (!(await call('eth_getTransactionReceipt', hash)));
  };
  await report('transfer to receipt', transfer);
  await revert('near the genesis');
  for (let left = height; left > 0; left -= 10_000) await call('hardhat_mine', `0x${Math.min(left, 10_000).toString(16)}`);
  await revert(`${height} blocks up`);
  await report('transfer to receipt after that', transfer);

  /** As a fixture does: reverts, takes a new snapshot, and changes something in between. */
  async function revert(where) {
    let id = await call('evm_snapshot');
    await report(`revert and snapshot, ${where}`, async () => {
      if (!(await call('evm_revert', id))) throw new Error('no such snapshot');
      id = await call('evm_snapshot');
    }, transfer);
  }
} finally {
  nodes.child.kill();
}

async function report(what, measured, before = async () => {}) {
  const took = [];
  for (let time = 0; time < times; time++) {
    await before();
    const begun = process.hrtime.bigint();
    await measured();
    took.push(Number(process.hrtime.bigint() - begun) / 1e6);
  }
  took.sort((one, other) => one - other);
  const at = (share) => took[Math.min(Math.floor(took.length * share), took.length - 1)].toFixed(1);
  console.log(`${what}: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, best ${at(0)} ms`);
}
