// Requests of test tools to a development chain, with viem and with hardhat's network-helpers.

import assert from 'node:assert/strict';
import test from 'node:test';
import { createPublicClient, createTestClient, getAddress, http, parseEther, parseGwei, publicActions, walletActions, webSocket } from 'viem';
import { Network } from '../../../testnet/js/network.js';
import { hardhat } from '../lib/hardhat.js';
import { supply, token, until } from '../lib/tour.js';

const nobody = '0x00000000000000000000000000000000000000aa';
const stranger = '0x1111111111111111111111111111111111111111';

for (const mode of ['hardhat', 'anvil']) {
  test(`viem's test actions, as of ${mode}`, async (t) => {
    const network = await Network.dev();
    t.after(() => network.down());
    const { chain } = network;
    const transport = http(network.nodes[0].rpc);
    const client = createTestClient({ chain, mode, transport, pollingInterval: 20 }).extend(publicActions).extend(walletActions);
    const [owner] = await client.getAddresses();

    const height = await client.getBlockNumber({ cacheTime: 0 });
    await client.mine({ blocks: 4, interval: 30 });
    assert.equal(await client.getBlockNumber({ cacheTime: 0 }), height + 4n);
    const { timestamp } = await client.getBlock();
    await client.setNextBlockTimestamp({ timestamp: timestamp + 500n });
    await client.mine({ blocks: 1 });
    assert.equal((await client.getBlock()).timestamp, timestamp + 500n);
    await client.increaseTime({ seconds: 1000 });
    await client.mine({ blocks: 1 });
    assert.ok((await client.getBlock()).timestamp >= timestamp + 1500n);

    await client.setBalance({ address: stranger, value: parseEther('5') });
    await client.setNonce({ address: stranger, nonce: 3 });
    await client.impersonateAccount({ address: stranger });
    const hash = await client.sendTransaction({ account: stranger, to: nobody, value: 7n });
    const receipt = await client.waitForTransactionReceipt({ hash });
    assert.deepEqual([receipt.status, receipt.from], ['success', stranger]);
    await client.stopImpersonatingAccount({ address: stranger });
    await assert.rejects(client.sendTransaction({ account: stranger, to: nobody, value: 7n, gas: 21_000n }), /unknown account/);
    assert.equal(await client.getTransactionCount({ address: stranger }), 4);

    await client.setNextBlockBaseFeePerGas({ baseFeePerGas: parseGwei('40') });
    await client.mine({ blocks: 1 });
    assert.equal((await client.getBlock()).baseFeePerGas, parseGwei('40'));

    // A fixture: deploy, snapshot, change, revert. Subscribers are notified of removed logs.
    const deployed = await client.waitForTransactionReceipt({
      hash: await client.deployContract({ ...token, account: owner, args: ['Token', 'TOK', supply] }),
    });
    const contract = { ...token, address: deployed.contractAddress };
    const balance = () => client.readContract({ ...contract, functionName: 'balanceOf', args: [nobody] });
    const listener = createPublicClient({ chain, transport: webSocket(network.nodes[0].rpc.replace('http', 'ws')) });
    t.after(async () => (await listener.transport.getRpcClient()).close());
    const [logs, heads] = [[], []];
    const subscribe = (into, ...params) => listener.transport.subscribe({ params, onData: ({ result }) => into.push(result) });
    await subscribe(logs, 'logs', { address: contract.address });
    await subscribe(heads, 'newHeads');
    const filter = await client.createContractEventFilter({ ...contract });
    const id = await client.snapshot();
    const fixed = await client.getBlock();
    const transfer = await client.writeContract({ ...contract, account: owner, functionName: 'transfer', args: [nobody, 9n] });
    const moved = await client.waitForTransactionReceipt({ hash: transfer });
    assert.equal(await balance(), 9n);
    await until('the log and its block are told of', () => logs.length === 1 && heads.length === 1);
    assert.equal((await client.getFilterChanges({ filter })).length, 1);

    await client.revert({ id });
    assert.equal(await balance(), 0n);
    assert.equal((await client.getBlock()).hash, fixed.hash);
    // A revert ends a transaction in progress with a block, which is reverted as well. A subscriber may be notified of
    // it.
    await until('what is gone is told of', () => logs.length === 2 && heads.at(-1).hash === fixed.hash);
    assert.deepEqual([logs[0].removed, logs[1].removed, logs[1].blockHash], [false, true, moved.blockHash]);
    const [gone, ...others] = await client.getFilterChanges({ filter });
    assert.deepEqual([gone.removed, gone.transactionHash, others], [true, transfer, []]);

    const again = await client.writeContract({ ...contract, account: owner, functionName: 'transfer', args: [nobody, 11n] });
    const { blockNumber } = await client.waitForTransactionReceipt({ hash: again });
    assert.deepEqual([blockNumber, await balance()], [fixed.number + 1n, 11n]);
    await until('and so is what takes its place', () => logs.length === 3 && BigInt(heads.at(-1).number) === blockNumber);
    assert.equal(logs[2].removed, false);

    // Tokens of a contract can be spent by impersonation.
    await client.setBalance({ address: contract.address, value: parseEther('1') });
    const fund = await client.writeContract({ ...contract, account: owner, functionName: 'transfer', args: [contract.address, 5n] });
    await client.waitForTransactionReceipt({ hash: fund });
    await client.impersonateAccount({ address: contract.address });
    const spend = { ...contract, account: contract.address, functionName: 'transfer', args: [nobody, 5n] };
    const spent = await client.waitForTransactionReceipt({ hash: await client.writeContract(spend) });
    assert.deepEqual([spent.status, getAddress(spent.from)], ['success', getAddress(contract.address)]);
    assert.equal(await balance(), 16n);

    await client.setAutomine(false);
    const dropped = await client.sendTransaction({ account: owner, to: nobody, value: 1n });
    await client.dropTransaction({ hash: dropped });
    assert.equal((await client.getTxpoolStatus()).pending, 0);
    const waits = await client.sendTransaction({ account: owner, to: nobody, value: 1n });
    await assert.rejects(client.getTransactionReceipt({ hash: waits }));
    await client.mine({ blocks: 1 });
    assert.equal((await client.waitForTransactionReceipt({ hash: waits })).status, 'success');
  });
}

test("hardhat's network-helpers", async (t) => {
  // The helpers check the client version first.
  const network = await Network.dev({ flags: ['--client-version', 'HardhatNetwork/corniche'] });
  t.after(() => network.down());
  assert.match(await hardhat(network, 'remote').run('helpers.cjs'), /all of them helped/);
});
