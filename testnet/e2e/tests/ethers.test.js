// The other wallet library, and the long-lived connection: what viem does not exercise.

import assert from 'node:assert/strict';
import { Contract, ContractFactory, JsonRpcProvider, Wallet, isError } from 'ethers';
import { createPublicClient, keccak256, numberToHex, toRlp, webSocket } from 'viem';
import { abi, bytecode } from '../lib/contracts.js';
import { story, underEveryEngine } from '../lib/network.js';

const token = abi('erc20');

underEveryEngine('ethers and subscriptions', { timeout: 300_000 }, async (t, engine) => {
  const { network, step } = await story(t, { engine, validators: 1 });
  const [node] = network.nodes;
  const [, friend] = network.accounts;

  const provider = new JsonRpcProvider(node.rpc, undefined, { pollingInterval: 50, cacheTimeout: -1 });
  t.after(() => provider.destroy());
  const wallet = new Wallet(network.keys[0], provider);
  let deployed;

  await step('deploys, transfers and finds the event', async () => {
    deployed = await new ContractFactory(token, bytecode('erc20'), wallet).deploy('Cornice', 'CRN', 1_000_000n);
    await deployed.waitForDeployment();
    const sent = await deployed.getFunction('transfer')(friend.address, 1000n);
    const receipt = await sent.wait();
    assert.equal(receipt.status, 1);
    assert.equal(await deployed.getFunction('balanceOf')(friend.address), 1000n);
    const [event] = await deployed.queryFilter(deployed.filters.Transfer(null, friend.address), 0, 'latest');
    assert.equal(event.args.value, 1000n);
  });

  await step('names what the contract and the node refuse', async () => {
    const reader = new Contract(await deployed.getAddress(), token, provider);
    await assert.rejects(reader.getFunction('transfer').staticCall(friend.address, 1n), (error) => {
      assert.ok(isError(error, 'CALL_EXCEPTION'));
      assert.ok(['ERC20InsufficientBalance', 'ERC20InvalidReceiver'].includes(error.revert.name));
      return true;
    });
    const poor = Wallet.createRandom().connect(provider);
    await assert.rejects(poor.sendTransaction({ to: friend.address, value: 1n, gasLimit: 21_000n }), (error) => isError(error, 'INSUFFICIENT_FUNDS'));
    await assert.rejects(wallet.sendTransaction({ to: friend.address, value: 1n, nonce: 0 }), (error) => isError(error, 'NONCE_EXPIRED'));
  });

  await step('new heads arrive over a WebSocket', async () => {
    const client = createPublicClient({ chain: network.chain, transport: webSocket(node.rpc.replace(/^http/, 'ws')) });
    let unwatch;
    const head = new Promise((resolve, reject) => {
      unwatch = client.watchBlocks({ onBlock: resolve, onError: reject });
    });
    // The subscription stands once a later request on the same connection is answered.
    await client.getChainId();
    const sent = await wallet.sendTransaction({ to: friend.address, value: 1n });
    const { blockNumber } = await sent.wait();
    assert.ok((await head).number <= BigInt(blockNumber));
    unwatch();
    (await client.transport.getRpcClient()).close();
  });

  await step('the block hash is the hash of the header, recomputed from what the node answers', async () => {
    const { result: block } = await node.call('eth_getBlockByNumber', 'latest', false);
    const scalar = (value) => (BigInt(value) === 0n ? '0x' : evenHex(BigInt(value)));
    const fields = [
      block.parentHash, block.sha3Uncles, block.miner, block.stateRoot, block.transactionsRoot, block.receiptsRoot, block.logsBloom,
      scalar(block.difficulty), scalar(block.number), scalar(block.gasLimit), scalar(block.gasUsed), scalar(block.timestamp),
      block.extraData, block.mixHash, block.nonce, scalar(block.baseFeePerGas),
    ];
    assert.equal(keccak256(toRlp(fields)), block.hash);
  });
});

function evenHex(value) {
  const digits = numberToHex(value).slice(2);
  return digits.length % 2 === 0 ? `0x${digits}` : `0x0${digits}`;
}
