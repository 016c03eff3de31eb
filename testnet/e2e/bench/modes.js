// Compares ordered chains with sharded ones, as processes on this machine: rate, time until the receipt, and processor time, for payments
// and a token. Each wallet sends its next transaction when it has the receipt of the one before. `npm run bench-modes`.

import { readFileSync } from 'node:fs';
import { encodeFunctionData, parseEther } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { abi, bytecode } from '../../js/contracts.js';
import { Network } from '../../js/network.js';

const WALLETS = Number(process.env.WALLETS ?? 32);
const SECONDS = Number(process.env.SECONDS ?? 10);
/** Transactions that each wallet has signed before the measurement. */
const SIGNED = Number(process.env.SIGNED ?? 400);
const token = abi('erc20');

const MODES = [
  ['mahi-mahi, 4 validators', { engine: 'mahi-mahi', validators: 4 }],
  ['autobahn, 4 validators', { engine: 'autobahn', validators: 4 }],
  ['basil, 1 shard of 6', { engine: 'basil', shards: 1 }],
  ['basil, 2 shards of 6', { engine: 'basil', shards: 2 }],
];

/** Processor time of all nodes, in seconds. */
function processorSeconds(network) {
  const ticks = network.nodes.map(({ pid }) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, one) => sum + one) / 100;
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;

async function measure(network, wallets, makes) {
  const [node] = network.nodes;
  const chainId = network.chain.id;
  const sign = async (wallet, nonce) =>
    wallet.account.signTransaction({ chainId, nonce, type: 'eip1559', maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1n, ...makes(wallet) });
  for (const wallet of wallets) {
    wallet.nonce = Number(await node.client.getTransactionCount({ address: wallet.account.address, blockTag: 'pending' }));
    wallet.signed = [];
    for (let index = 0; index < SIGNED; index++) wallet.signed.push(await sign(wallet, wallet.nonce + index));
  }
  const latencies = [];
  let failed = 0;
  const [processorBefore, start] = [processorSeconds(network), performance.now()];
  const end = start + SECONDS * 1000;
  await Promise.all(
    wallets.map(async (wallet) => {
      for (const raw of wallet.signed) {
        const sent = performance.now();
        if (sent >= end) return;
        const { result, error } = await node.call('eth_sendRawTransactionSync', raw);
        if (error || result.status !== '0x1') failed += 1;
        else latencies.push(performance.now() - sent);
        if (error) return;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const processor = processorSeconds(network) - processorBefore;
  latencies.sort((a, b) => a - b);
  return {
    rate: latencies.length / seconds,
    median: at(latencies, 0.5),
    p99: at(latencies, 0.99),
    processorMs: (processor * 1000) / Math.max(1, latencies.length),
    failed,
  };
}

console.log(`${WALLETS} wallets, ${SECONDS} s each\n`);
console.log('| mode | workload | tx/s | median ms | 99 % ms | processor ms per tx | failed |');
console.log('|---|---|---|---|---|---|---|');
for (const [name, options] of MODES) {
  const network = await Network.up(options);
  let failed = true;
  try {
    const [node] = network.nodes;
    const [owner, payee] = network.accounts;
    const funder = node.wallet(owner);
    const wallets = Array.from({ length: WALLETS }, () => ({ account: privateKeyToAccount(generatePrivateKey()) }));
    for (const { account } of wallets) await node.receipt(await funder.sendTransaction({ to: account.address, value: parseEther('10') }));
    const created = await node.receipt(await funder.deployContract({ abi: token, bytecode: bytecode('erc20'), args: ['Gold', 'GLD', 10n ** 24n] }));
    const gold = created.contractAddress;
    const transfer = (to) => encodeFunctionData({ abi: token, functionName: 'transfer', args: [to, 1n] });
    for (const { account } of wallets) {
      await node.receipt(await funder.writeContract({ address: gold, abi: token, functionName: 'transfer', args: [account.address, 10n ** 9n] }));
    }
    wallets.forEach((wallet, index) => {
      wallet.other = `0x${(index + 1).toString(16).padStart(40, '7')}`;
    });
    const workloads = [
      ['payments, each to its own account', ({ other }) => ({ to: other, value: 1n, gas: 21_000n })],
      ['payments, all to one account', () => ({ to: payee.address, value: 1n, gas: 21_000n })],
      ['token transfers, each to its own account', ({ other }) => ({ to: gold, data: transfer(other), gas: 300_000n })],
    ];
    for (const [workload, makes] of workloads) {
      const { rate, median, p99, processorMs, failed: lost } = await measure(network, wallets, makes);
      const cells = [name, workload, rate.toFixed(0), median.toFixed(0), p99.toFixed(0), processorMs.toFixed(1), lost];
      console.log(`| ${cells.join(' | ')} |`);
    }
    failed = false;
  } finally {
    await network.down({ failed });
  }
}
