// ethers, version 6: https://docs.ethers.org/v6

import assert from 'node:assert/strict';
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider, getCreateAddress, isError, parseEther, toQuantity } from 'ethers';
import {
  CALL_TRACER,
  MULTICALL3,
  MULTICALL3_SIGNATURES,
  assertNestedTraced,
  assertRevertTraced,
  assertTransferTraced,
  supply,
  token,
  tour,
} from '../lib/tour.js';

tour('ethers', ({ network, node, keys, accounts, serves, t }) => {
  const [, friend, stranger, other] = accounts;
  const provider = new JsonRpcProvider(node.rpc, undefined, { pollingInterval: 50, cacheTimeout: -1 });
  t.after(() => provider.destroy());
  const wallet = new Wallet(keys[0], provider);
  const multicall = new Contract(MULTICALL3, MULTICALL3_SIGNATURES, wallet);
  let deployed;

  /** A call of the token for Multicall3, which may fail. */
  const part = (name, ...args) => ({ target: deployed.target, allowFailure: true, callData: deployed.interface.encodeFunctionData(name, args) });
  const sendTokens = async (to, amount) => (await deployed.transfer(to.address, amount)).wait();
  const refused = (request, code) => assert.rejects(request, (error) => isError(error, code));

  return {
    async accounts() {
      assert.equal((await provider.getNetwork()).chainId, BigInt(network.chain.id));
      assert.deepEqual((await provider.listAccounts()).map(({ address }) => address), network.accounts.map(({ address }) => address));
      assert.ok((await provider.getBalance(wallet.address)) > parseEther('1000'));
      for (const tag of ['latest', 'safe', 'finalized', 'pending', 'earliest']) {
        assert.equal(await provider.getTransactionCount(wallet.address, tag), 0);
        assert.equal((await provider.getBlock(tag)).number, 0);
      }
      assert.equal(await provider.getCode(wallet.address), '0x');
    },

    async fees() {
      const { gasPrice, maxFeePerGas, maxPriorityFeePerGas } = await provider.getFeeData();
      assert.ok(maxFeePerGas > maxPriorityFeePerGas);
      assert.ok(gasPrice >= (await provider.getBlock('latest')).baseFeePerGas);
      const { baseFeePerGas, reward } = await provider.send('eth_feeHistory', ['0x5', 'latest', [10, 50, 90]]);
      assert.equal(baseFeePerGas.length, reward.length + 1);
      assert.equal(await provider.estimateGas({ from: wallet.address, to: friend.address, value: 1n }), 21_000n);
    },

    async 'transfers of types 0, 1 and 2'() {
      const accessList = [{ address: stranger.address, storageKeys: [`0x${'00'.repeat(32)}`] }];
      for (const [type, fields, gas] of [
        [0, {}, 21_000n],
        [1, { accessList }, 21_000n + 2_400n + 1_900n],
        [2, {}, 21_000n],
        [2, { accessList }, 21_000n + 2_400n + 1_900n],
      ]) {
        const before = await provider.getBalance(stranger.address);
        const sent = await wallet.sendTransaction({ type, to: stranger.address, value: 7n, ...fields });
        const receipt = await sent.wait();
        assert.deepEqual([receipt.status, receipt.type, receipt.gasUsed], [1, type, gas]);
        assert.equal(await provider.getBalance(stranger.address), before + 7n);
        assert.equal(await provider.getBalance(stranger.address, receipt.blockNumber - 1), before);
        const transaction = await provider.getTransaction(sent.hash);
        assert.deepEqual([transaction.type, transaction.from, transaction.value], [type, wallet.address, 7n]);
        assert.deepEqual(transaction.accessList ?? [], fields.accessList ?? []);
        const block = await provider.getBlock(receipt.blockNumber, true);
        assert.equal(block.prefetchedTransactions[0].hash, sent.hash);
      }
    },

    async deploy() {
      const nonce = await wallet.getNonce();
      deployed = await new ContractFactory(token.abi, token.bytecode, wallet).deploy('Cornice', 'CRN', supply);
      await deployed.waitForDeployment();
      assert.equal(deployed.target, getCreateAddress({ from: wallet.address, nonce }));
      assert.match(await deployed.getDeployedCode(), /^0xeff00000/);
    },

    async call() {
      assert.equal(await deployed.name(), 'Cornice');
      assert.equal(await deployed.transfer.staticCall(friend.address, 1000n), true);
      const receipt = await sendTokens(friend, 1000n);
      assert.equal(receipt.status, 1);
      assert.equal(await deployed.balanceOf(friend.address), 1000n);
      assert.equal(await deployed.balanceOf(friend.address, { blockTag: receipt.blockNumber - 1 }), 0n);
    },

    async multicall() {
      // ethers has no built-in multicall; its users call the contract like any other.
      const calls = [part('symbol'), part('transfer', friend.address, 1n), part('balanceOf', friend.address)];
      const results = await multicall.aggregate3.staticCall(calls);
      assert.deepEqual(results.map(({ success }) => success), [true, false, true]);
      const [symbol, failure, balance] = results.map(({ returnData }) => returnData);
      const { interface: coder } = deployed;
      assert.deepEqual([...coder.decodeFunctionResult('symbol', symbol)], ['CRN']);
      assert.deepEqual([...coder.decodeFunctionResult('balanceOf', balance)], [1000n]);
      // The caller is Multicall3 itself, which owns no tokens.
      const { name, args } = coder.parseError(failure);
      assert.deepEqual([name, ...args], ['ERC20InsufficientBalance', MULTICALL3, 0n, 1n]);
      assert.equal(await multicall.getEthBalance(friend.address), await provider.getBalance(friend.address));
    },

    async 'access list'() {
      const call = await deployed.transfer.populateTransaction(other.address, 1n);
      const { accessList, gasUsed } = await provider.send('eth_createAccessList', [{ from: wallet.address, to: call.to, data: call.data }]);
      assert.deepEqual(accessList.map(({ address }) => address), [deployed.target.toLowerCase()]);
      assert.ok(accessList[0].storageKeys.length >= 2, 'the balances of both');
      const receipt = await (await wallet.sendTransaction({ ...call, accessList })).wait();
      assert.deepEqual([receipt.status, receipt.gasUsed], [1, BigInt(gasUsed)]);
    },

    async 'simulated blocks'() {
      const head = await provider.getBlockNumber();
      const by = (from, name, ...args) => ({ from: from.address, to: deployed.target, data: deployed.interface.encodeFunctionData(name, args) });
      const first = { blockOverrides: { number: toQuantity(head + 5) }, calls: [by(wallet, 'transfer', stranger.address, 3n)] };
      const second = { calls: [by(stranger, 'balanceOf', stranger.address), by(stranger, 'transfer', wallet.address, 4n)] };
      const blocks = await provider.send('eth_simulateV1', [{ blockStateCalls: [first, second] }, 'latest']);
      // Blocks between the head and the given number are included.
      assert.deepEqual(blocks.map(({ number }) => Number(number) - head), [1, 2, 3, 4, 5, 6]);
      const [[moved], [asked, refusal]] = blocks.slice(-2).map(({ calls }) => calls);
      assert.deepEqual([moved.status, moved.logs.length], ['0x1', 1]);
      assert.equal(BigInt(asked.returnData), 3n, 'on the state that the block before left');
      assert.deepEqual([refusal.status, refusal.error.code], ['0x0', 3]);
      assert.equal(deployed.interface.parseError(refusal.error.data ?? refusal.returnData).name, 'ERC20InsufficientBalance');
      assert.equal(await deployed.balanceOf(stranger.address), 0n, 'nothing happened');
    },

    async 'revert reason'() {
      const poor = deployed.connect(new Wallet(keys[2], provider));
      const saysWhy = (error) => {
        assert.ok(isError(error, 'CALL_EXCEPTION'));
        const { name, args } = error.revert ?? deployed.interface.parseError(error.data);
        assert.equal(name, 'ERC20InsufficientBalance');
        assert.deepEqual([...args], [stranger.address, 0n, 1n]);
        return true;
      };
      await assert.rejects(poor.transfer.staticCall(wallet.address, 1n), saysWhy);
      await assert.rejects(poor.transfer.estimateGas(wallet.address, 1n), saysWhy);
      await assert.rejects(poor.transfer(wallet.address, 1n), saysWhy);
      // With a gas limit it is sent nevertheless, and the receipt shows the failure.
      const sent = await poor.transfer(wallet.address, 1n, { gasLimit: 200_000n });
      await assert.rejects(sent.wait(), (error) => isError(error, 'CALL_EXCEPTION') && error.receipt.status === 0);
    },

    async refusals() {
      const to = friend.address;
      const poor = Wallet.createRandom().connect(provider);
      await refused(poor.sendTransaction({ to, value: 1n, gasLimit: 21_000n }), 'INSUFFICIENT_FUNDS');
      await refused(wallet.sendTransaction({ to, nonce: 0 }), 'NONCE_EXPIRED');
      await assert.rejects(wallet.sendTransaction({ to, gasLimit: 20_000n }), /intrinsic gas too low/);
      const cheap = { gasLimit: 21_000n, maxFeePerGas: 1n, maxPriorityFeePerGas: 0n };
      await assert.rejects(wallet.sendTransaction({ to, ...cheap }), /max fee per gas less than block base fee/);
      assert.equal(await provider.getTransactionReceipt(`0x${'12'.repeat(32)}`), null);
      assert.equal(await provider.getBlock(1_000_000), null);
    },

    async logs() {
      const receipt = await sendTokens(friend, 5n);
      const [event] = receipt.logs;
      assert.deepEqual([event.eventName, ...event.args], ['Transfer', wallet.address, friend.address, 5n]);
      const transfers = deployed.filters.Transfer(null, friend.address);
      const found = await deployed.queryFilter(transfers, 0, 'latest');
      assert.deepEqual(found.map(({ args }) => args.value), [1000n, 5n]);
      const inBlock = await provider.getLogs({ blockHash: receipt.blockHash, address: deployed.target, topics: await transfers.getTopicFilter() });
      assert.deepEqual(inBlock.map(({ transactionHash }) => transactionHash), [receipt.hash]);
      assert.deepEqual(await deployed.queryFilter(deployed.filters.Transfer(null, stranger.address)), []);
    },

    async filters() {
      // `on` over HTTP: ethers requests logs block by block.
      const heard = next(deployed, deployed.filters.Transfer(null, friend.address));
      await heardBy(provider);
      const receipt = await sendTokens(friend, 6n);
      const { args, log } = await heard;
      assert.deepEqual([...args, log.transactionHash], [wallet.address, friend.address, 6n, receipt.hash]);
      await deployed.removeAllListeners();
    },

    async subscription() {
      const listener = new WebSocketProvider(node.rpc.replace(/^http/, 'ws'));
      const abroad = new Contract(deployed.target, token.abi, listener);
      const block = next(listener, 'block');
      const transfer = next(abroad, abroad.filters.Transfer(null, friend.address));
      const pending = next(listener, 'pending');
      await heardBy(listener);
      const receipt = await sendTokens(friend, 8n);
      assert.equal(await block, receipt.blockNumber);
      const { args, log } = await transfer;
      assert.deepEqual([args.value, log.transactionHash], [8n, receipt.hash]);
      assert.equal(await pending, receipt.hash);
      await listener.destroy();
    },

    async batch() {
      // ethers combines requests within 10 ms into a batch by default.
      const sizes = [];
      const note = ({ action, payload }) => action === 'sendRpcPayload' && sizes.push([payload].flat().length);
      await provider.on('debug', note);
      const [balances, refusal] = await Promise.all([
        Promise.all(accounts.map(({ address }) => provider.getBalance(address))),
        provider.send('eth_noSuchMethod', []).catch((error) => error),
      ]);
      await provider.off('debug', note);
      assert.equal(balances.length, accounts.length);
      assert.ok(isError(refusal, 'UNSUPPORTED_OPERATION'), refusal.message);
      assert.ok(Math.max(...sizes) > accounts.length, `sent in parts of ${sizes}`);
    },

    async 'replace and cancel'() {
      const sender = new Wallet(keys[1], provider);
      const first = await sender.getNonce('pending');
      const { maxFeePerGas, maxPriorityFeePerGas } = await provider.getFeeData();
      const fees = { maxFeePerGas, maxPriorityFeePerGas };
      const twice = { maxFeePerGas: maxFeePerGas * 2n, maxPriorityFeePerGas: maxPriorityFeePerGas * 2n };
      const send = (nonce, value, more) => sender.sendTransaction({ nonce, to: stranger.address, value, gasLimit: 21_000n, ...more });
      // After a nonce gap, transactions are pending until they are replaced.
      const waiting = [await send(first + 1, 1n, fees), await send(first + 2, 2n, fees)];
      assert.equal((await provider.getTransaction(waiting[0].hash)).blockNumber, null);
      await refused(send(first + 1, 3n, fees), 'REPLACEMENT_UNDERPRICED');
      const head = await provider.getBlockNumber();
      const ends = waiting.map((transaction) => transaction.replaceableTransaction(head).wait().catch((error) => error));
      const replacement = await send(first + 1, 3n, twice);
      const cancellation = await sender.sendTransaction({ nonce: first + 2, to: sender.address, value: 0n, gasLimit: 21_000n, ...twice });
      const opening = await send(first, 4n, fees);
      assert.equal((await opening.wait()).status, 1);
      const [replaced, cancelled] = await Promise.all(ends);
      assert.deepEqual([replaced.code, replaced.reason, replaced.receipt.hash], ['TRANSACTION_REPLACED', 'replaced', replacement.hash]);
      assert.deepEqual([cancelled.code, cancelled.reason, cancelled.receipt.hash], ['TRANSACTION_REPLACED', 'cancelled', cancellation.hash]);
    },

    trace: serves('debug_traceTransaction', 'debug_traceCall')
      ? async () => {
          const traced = (hash) => provider.send('debug_traceTransaction', [hash, CALL_TRACER]);
          const { abi } = token;
          const receipt = await sendTokens(friend, 9n);
          assertTransferTraced(await traced(receipt.hash), { from: wallet.address, token: deployed.target, receipt });
          const failing = await deployed.transfer.populateTransaction(wallet.address, 1n);
          const sent = await new Wallet(keys[2], provider).sendTransaction({ ...failing, gasLimit: 200_000n });
          await assert.rejects(sent.wait());
          assertRevertTraced(await traced(sent.hash), { from: stranger.address, token: deployed.target, abi });
          const nested = await multicall.aggregate3([part('name'), part('transfer', wallet.address, 1n)]);
          await nested.wait();
          assertNestedTraced(await traced(nested.hash), { from: wallet.address, token: deployed.target, abi });
          // A call without a transaction.
          const call = { from: stranger.address, to: failing.to, data: failing.data };
          const tried = await provider.send('debug_traceCall', [call, 'latest', CALL_TRACER]);
          assertRevertTraced(tried, { from: stranger.address, token: deployed.target, abi });
        }
      : 'the node has no tracer',
  };
});

/** Returns the first argument of the next such event. Does not unsubscribe: `once` would, and its end could not be awaited. */
function next(source, event) {
  return new Promise((resolve) => void source.on(event, resolve));
}

/** Waits until subscriptions are active: they start with requests, and this request comes after them. */
async function heardBy(provider) {
  await provider.listenerCount();
  await provider.send('eth_chainId', []);
}
