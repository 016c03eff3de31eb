// Compares the node with anvil, hardhat and geth in one run: processor time of the node for each request, and rates.
//
// CORNICHE_BIN=… GETH=… npm run peers [-- names]
//
// `corniche load` sends the requests to all of them. It runs on the same cores as the node and costs about as much, so
// rates are less meaningful than processor time. RUN_SECONDS: duration of each measurement (5). ROUNDS: rounds over all
// nodes (3; medians are shown). TRANSFERS: number of transfers (3,000).

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { encodeDeployData, encodeFunctionData, numberToHex, parseEther } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { abi, bytecode } from '../../../testnet/js/contracts.js';
import { Peer, available, corniche } from './nodes.js';

const seconds = Number(process.env.RUN_SECONDS ?? 5);
const rounds = Number(process.env.ROUNDS ?? 3);
const transfers = Number(process.env.TRANSFERS ?? 3_000);
const CONNECTIONS = 32;
const LOGS = 1_000;
/** Rate at which no node is saturated, in requests a second. */
const LOW_RATE = 100;
const LOW_TRANSFERS = 20;

/** The first account that anvil, hardhat and `corniche dev` fund. */
const owner = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
const receiver = `0x${'77'.repeat(20)}`;
const tokenAbi = abi('erc20');

/** Returns the report of `corniche load`, and whether it completed. */
function load(peer, ...flags) {
  return new Promise((resolve, reject) =>
    execFile(corniche, ['load', '--json', '--rpc', peer.url, ...flags.map(String)], (error, stdout, stderr) => {
      if (stdout.trim() === '') reject(new Error(`${peer.name}: ${stderr}`));
      else resolve({ ...JSON.parse(stdout), complete: !error });
    }),
  );
}

/** Creates a token with a thousand logs, and returns the requests about it. */
async function prepare(peer) {
  const chainId = Number(await peer.call('eth_chainId'));
  // geth funds only its own account.
  if (peer.name === 'geth') {
    const [from] = await peer.call('eth_accounts');
    await settled(peer, await peer.call('eth_sendTransaction', { from, to: owner.address, value: numberToHex(parseEther('100000')) }));
  }
  let nonce = Number(await peer.call('eth_getTransactionCount', owner.address, 'latest'));
  const fees = { type: 'eip1559', chainId, maxFeePerGas: 20_000_000_000n, maxPriorityFeePerGas: 1_000_000_000n };
  const send = async (fields) => peer.call('eth_sendRawTransaction', await owner.signTransaction({ ...fees, ...fields, nonce: nonce++ }));
  const code = peer.name === 'corniche' ? bytecode('erc20') : JSON.parse(readFileSync(new URL('token.json', import.meta.url))).bytecode;
  const data = encodeDeployData({ abi: tokenAbi, bytecode: code, args: ['Cornice', 'CRN', parseEther('1000000')] });
  const { contractAddress: token } = await settled(peer, await send({ data, gas: BigInt(await peer.call('eth_estimateGas', { from: owner.address, data })) }));
  let last;
  for (let index = 0; index < LOGS; index += 1) {
    const call = encodeFunctionData({ abi: tokenAbi, functionName: 'transfer', args: [receiver, 1n] });
    last = await send({ to: token, data: call, gas: 100_000n });
    // Some nodes lose transactions when many are pending.
    if (index % 50 === 49) await settled(peer, last);
  }
  const { blockNumber: toBlock } = await settled(peer, last);
  const transferred = { address: token, topics: ['0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', null, `0x${'00'.repeat(12)}${receiver.slice(2)}`], fromBlock: '0x0', toBlock };
  const found = await peer.call('eth_getLogs', transferred);
  if (found.length !== LOGS) throw new Error(`${peer.name} has ${found.length} logs`);
  const balance = encodeFunctionData({ abi: tokenAbi, functionName: 'balanceOf', args: [receiver] });
  if (Number(await peer.call('eth_call', { to: token, data: balance }, 'latest')) !== LOGS) throw new Error(`${peer.name} has another balance`);
  return {
    eth_blockNumber: 'eth_blockNumber []',
    eth_getBalance: `eth_getBalance ${JSON.stringify([owner.address, 'latest'])}`,
    'eth_call (balanceOf)': `eth_call ${JSON.stringify([{ to: token, data: balance }, 'latest'])}`,
    'eth_getLogs (1,000 logs)': `eth_getLogs ${JSON.stringify([transferred])}`,
  };
}

async function settled(peer, hash) {
  const end = Date.now() + 60_000;
  while (Date.now() < end) {
    const receipt = await peer.call('eth_getTransactionReceipt', hash).catch(() => null);
    if (receipt?.status === '0x0') throw new Error(`${peer.name}: ${hash} failed`);
    if (receipt) return receipt;
    await new Promise((settle) => setTimeout(settle, 2));
  }
  throw new Error(`${peer.name}: no receipt of ${hash}`);
}

/** Measures one node from start to end. Returns numbers by row name. */
async function round(name) {
  const rows = {};
  const peer = await Peer.start(name);
  try {
    rows['start, ms'] = peer.startMs;
    rows['memory after start, MiB'] = peer.memory();
    const reads = await prepare(peer);
    for (const [what, read] of Object.entries(reads)) {
      const before = peer.processor();
      const { count, requestsPerSecond } = await load(peer, '--read', read, '--connections', CONNECTIONS, '--seconds', seconds);
      rows[`${what}: CPU us`] = ((peer.processor() - before) * 1e6) / count;
      rows[`${what}: per second`] = requestsPerSecond;
    }
    for (const what of ['eth_blockNumber', 'eth_call (balanceOf)']) {
      const { latencyMs } = await load(peer, '--read', reads[what], '--connections', 4, '--rate', LOW_RATE, '--seconds', seconds);
      rows[`${what} at ${LOW_RATE}/s: p50 ms`] = latencyMs.p50;
      rows[`${what} at ${LOW_RATE}/s: p99 ms`] = latencyMs.p99;
    }
    const { latencyMs } = await load(peer, '--rate', LOW_TRANSFERS, '--seconds', 2 * seconds, '--senders', 4);
    rows[`transfer to receipt at ${LOW_TRANSFERS}/s: p50 ms`] = latencyMs.p50;
    rows[`transfer to receipt at ${LOW_TRANSFERS}/s: p99 ms`] = latencyMs.p99;
    // Last, because some nodes get stuck when many senders send at once, and execute nothing afterwards.
    for (const senders of [1, 16]) {
      const before = peer.processor();
      const { complete, executed, transfersPerSecond } = await load(peer, '--count', transfers, '--senders', senders, '--timeout', 60).catch((error) => {
        console.error(error.message);
        return { complete: false, executed: 0 };
      });
      rows[`transfers of ${senders}: executed of ${transfers}`] = executed;
      rows[`transfers of ${senders}: CPU us`] = complete ? ((peer.processor() - before) * 1e6) / executed : NaN;
      rows[`transfers of ${senders}: per second`] = complete ? transfersPerSecond : NaN;
    }
    rows['memory at most, MiB'] = peer.memory('VmHWM');
  } finally {
    await peer.stop();
  }
  return rows;
}

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const shown = (number) => {
  if (number === undefined || Number.isNaN(number)) return '–';
  return number >= 100 ? Math.round(number).toLocaleString('en') : number >= 10 ? number.toFixed(1) : number.toFixed(2);
};

const names = process.argv.length > 2 ? process.argv.slice(2) : available;
const results = Object.fromEntries(names.map((name) => [name, []]));
const loads = [];
for (let count = 1; count <= rounds; count += 1) {
  for (const name of names) {
    loads.push(loadavg()[0]);
    console.error(`round ${count} of ${rounds}: ${name} (load ${loads.at(-1).toFixed(1)})`);
    const rows = await round(name).catch((error) => ({ failed: error }));
    if (rows.failed) console.error(String(rows.failed.message));
    else results[name].push(rows);
  }
}
const labels = [...new Set(Object.values(results).flatMap((all) => all.flatMap(Object.keys)))];
console.log(`| | ${names.join(' | ')} |\n|---|${'---|'.repeat(names.length)}`);
for (const label of labels) {
  const cells = names.map((name) => shown(median(results[name].map((rows) => rows[label]).filter((number) => number !== undefined))));
  console.log(`| ${label} | ${cells.join(' | ')} |`);
}
console.log(`\n${rounds} rounds, ${seconds} s each; load average ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}`);
