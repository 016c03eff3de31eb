// ethers on a sharded chain, whose receipts come before their blocks.

import assert from 'node:assert/strict';
import test from 'node:test';
import { ethers } from 'ethers';
import { abi, bytecode } from '../../../testnet/js/contracts.js';
import { withNetwork } from '../../../testnet/js/network.js';

test('ethers with a gateway', { timeout: 120_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { engine: 'basil', shards: 2 });
  const provider = new ethers.JsonRpcProvider(network.nodes[0].rpc, undefined, { pollingInterval: 100 });
  t.after(() => provider.destroy());
  const wallet = new ethers.NonceManager(new ethers.Wallet(network.keys[0], provider));
  const [owner, friend] = network.accounts;

  await step('a payment is waited for', async () => {
    const sent = await wallet.sendTransaction({ to: friend.address, value: 5n });
    const early = await sent.wait();
    assert.deepEqual([early.status, early.blockHash], [1, ethers.ZeroHash]);
    const confirmed = await sent.wait(2);
    assert.equal(confirmed.blockNumber, early.blockNumber);
    assert.equal((await provider.getBlock(confirmed.blockNumber)).hash, confirmed.blockHash);
  });

  await step('a token is deployed and used', async () => {
    const factory = new ethers.ContractFactory(abi('erc20'), bytecode('erc20'), wallet);
    const token = await (await factory.deploy('Gold', 'GLD', 1_000n)).waitForDeployment();
    const paid = await (await token.transfer(friend.address, 7n)).wait();
    assert.deepEqual(paid.logs.map(({ args }) => args.toArray()), [[owner.address, friend.address, 7n]]);
    assert.equal(await token.balanceOf(friend.address), 7n, 'the newest state contains it');
  });
});
