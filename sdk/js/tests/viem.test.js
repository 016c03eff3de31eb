// viem: https://viem.sh

import assert from 'node:assert/strict';
import { createPublicClient, encodeFunctionData, getContractAddress, http, parseEther, parseEventLogs, parseGwei, webSocket, zeroAddress } from 'viem';
import {
  CALL_TRACER,
  MULTICALL3,
  assertNestedTraced,
  assertRevertTraced,
  assertTransferTraced,
  multicall3Abi,
  supply,
  token,
  tour,
} from '../lib/tour.js';

tour('viem', ({ network, node, accounts, serves }) => {
  const [owner, friend, stranger, other] = accounts;
  const { client } = node;
  const wallet = node.wallet(owner);
  let deployed;

  const wait = (hash) => client.waitForTransactionReceipt({ hash });
  const transferTokens = async (to, amount) =>
    wait(await wallet.writeContract({ ...deployed, functionName: 'transfer', args: [to.address, amount] }));
  const balanceOf = (account, more = {}) => client.readContract({ ...deployed, functionName: 'balanceOf', args: [account.address], ...more });

  return {
    async accounts() {
      assert.equal(await client.getChainId(), network.chain.id);
      assert.deepEqual(await node.wallet().getAddresses(), network.accounts.map(({ address }) => address));
      assert.ok((await client.getBalance({ address: owner.address })) > parseEther('1000'));
      for (const blockTag of ['latest', 'safe', 'finalized', 'pending', 'earliest']) {
        assert.equal(await client.getTransactionCount({ address: owner.address, blockTag }), 0);
        assert.equal((await client.getBlock({ blockTag })).number, 0n);
      }
      assert.equal(await client.getCode({ address: owner.address }), undefined);
    },

    async fees() {
      const { maxFeePerGas, maxPriorityFeePerGas } = await client.estimateFeesPerGas();
      assert.ok(maxFeePerGas > maxPriorityFeePerGas);
      const { gasPrice } = await client.estimateFeesPerGas({ type: 'legacy' });
      assert.ok(gasPrice >= (await client.getBlock()).baseFeePerGas);
      const { baseFeePerGas, reward } = await client.getFeeHistory({ blockCount: 5, rewardPercentiles: [10, 50, 90] });
      assert.equal(baseFeePerGas.length, reward.length + 1);
      assert.ok(baseFeePerGas.every((fee) => fee > 0n));
      assert.equal(await client.estimateGas({ account: owner, to: friend.address, value: 1n }), 21_000n);
    },

    async 'transfers of types 0, 1 and 2'() {
      const accessList = [{ address: stranger.address, storageKeys: [`0x${'00'.repeat(32)}`] }];
      const gasPrice = (await client.getGasPrice()) * 2n;
      for (const [type, fields, gas] of [
        ['legacy', { gasPrice }, 21_000n],
        ['eip2930', { gasPrice, accessList }, 21_000n + 2_400n + 1_900n],
        ['eip1559', {}, 21_000n],
        ['eip1559', { accessList, maxPriorityFeePerGas: parseGwei('1'), maxFeePerGas: gasPrice + parseGwei('1') }, 21_000n + 2_400n + 1_900n],
      ]) {
        const before = await client.getBalance({ address: stranger.address });
        const hash = await wallet.sendTransaction({ type, to: stranger.address, value: 7n, ...fields });
        const receipt = await wait(hash);
        assert.deepEqual([receipt.status, receipt.type, receipt.gasUsed], ['success', type, gas]);
        assert.equal(await client.getBalance({ address: stranger.address }), before + 7n);
        const { blockNumber } = receipt;
        assert.equal(await client.getBalance({ address: stranger.address, blockNumber: blockNumber - 1n }), before);
        const transaction = await client.getTransaction({ hash });
        assert.deepEqual([transaction.type, transaction.from, transaction.value], [type, owner.address.toLowerCase(), 7n]);
        assert.deepEqual(transaction.accessList ?? [], fields.accessList ? accessList.map((entry) => ({ ...entry, address: entry.address.toLowerCase() })) : []);
        assert.equal((await client.getBlock({ blockNumber, includeTransactions: true })).transactions[0].hash, hash);
      }
    },

    async deploy() {
      const nonce = await client.getTransactionCount({ address: owner.address });
      const receipt = await wait(await wallet.deployContract({ ...token, args: ['Cornice', 'CRN', supply] }));
      assert.equal(receipt.status, 'success');
      const address = getContractAddress({ from: owner.address, nonce: BigInt(nonce) });
      assert.equal(receipt.contractAddress, address.toLowerCase());
      deployed = { address, abi: token.abi };
      assert.match(await client.getCode({ address }), /^0xeff00000/);
    },

    async call() {
      assert.equal(await client.readContract({ ...deployed, functionName: 'name' }), 'Cornice');
      const { result, request } = await client.simulateContract({ ...deployed, account: owner, functionName: 'transfer', args: [friend.address, 1000n] });
      assert.equal(result, true);
      const receipt = await wait(await wallet.writeContract(request));
      assert.equal(receipt.status, 'success');
      assert.equal(await balanceOf(friend), 1000n);
      assert.equal(await balanceOf(friend, { blockNumber: receipt.blockNumber - 1n }), 0n);
      // The receipt as the response to the transaction.
      const { status, gasUsed } = await wallet.sendTransactionSync({ to: friend.address, value: 1n });
      assert.deepEqual([status, gasUsed], ['success', 21_000n]);
      const poor = { address: stranger.address, balance: 5n };
      const { data } = await client.call({ account: stranger, to: owner.address, value: 5n, stateOverride: [poor] });
      assert.equal(data, undefined);
    },

    async multicall() {
      // If the chain has a Multicall3 address, viem combines calls on request or automatically.
      const chain = { ...network.chain, contracts: { multicall3: { address: MULTICALL3 } } };
      const requests = [];
      const transport = http(node.rpc, { retryCount: 0, onFetchRequest: (_, { body }) => void requests.push(JSON.parse(body)) });
      const gathering = createPublicClient({ chain, transport, batch: { multicall: true }, cacheTime: 0 });
      const results = await gathering.multicall({
        contracts: [
          { ...deployed, functionName: 'symbol' },
          { ...deployed, functionName: 'transfer', args: [friend.address, 1n] },
          { ...deployed, functionName: 'balanceOf', args: [friend.address] },
        ],
      });
      assert.deepEqual(results.map(({ status }) => status), ['success', 'failure', 'success']);
      assert.deepEqual([results[0].result, results[2].result], ['CRN', 1000n]);
      // The caller is Multicall3 itself, which owns no tokens.
      const { data } = results[1].error.walk((cause) => cause.name === 'ContractFunctionRevertedError');
      assert.deepEqual([data.errorName, data.args], ['ERC20InsufficientBalance', [MULTICALL3, 0n, 1n]]);
      const [name, decimals, funds] = await Promise.all([
        gathering.readContract({ ...deployed, functionName: 'name' }),
        gathering.readContract({ ...deployed, functionName: 'decimals' }),
        gathering.readContract({ address: MULTICALL3, abi: multicall3Abi, functionName: 'getEthBalance', args: [owner.address] }),
      ]);
      assert.deepEqual([name, decimals], ['Cornice', 18]);
      assert.equal(funds, await client.getBalance({ address: owner.address }));
      assert.deepEqual(requests.map(({ method, params }) => [method, params[0].to]), [['eth_call', MULTICALL3], ['eth_call', MULTICALL3]]);
    },

    async 'access list'() {
      const data = encodeFunctionData({ ...deployed, functionName: 'transfer', args: [other.address, 1n] });
      const { accessList, gasUsed } = await client.createAccessList({ account: owner, to: deployed.address, data });
      assert.deepEqual(accessList.map(({ address }) => address), [deployed.address.toLowerCase()]);
      assert.ok(accessList[0].storageKeys.length >= 2, 'the balances of both');
      const receipt = await wait(await wallet.sendTransaction({ to: deployed.address, data, accessList }));
      assert.deepEqual([receipt.status, receipt.gasUsed], ['success', gasUsed]);
    },

    async 'simulated blocks'() {
      const head = await client.getBlock();
      const transfer = { to: deployed.address, abi: token.abi, functionName: 'transfer' };
      const ask = { ...transfer, functionName: 'balanceOf', args: [stranger.address] };
      const blocks = await client.simulateBlocks({
        blocks: [
          {
            blockOverrides: { number: head.number + 1n, time: head.timestamp + 60n },
            stateOverrides: [{ address: zeroAddress, balance: parseEther('2') }],
            calls: [
              { account: owner, ...transfer, args: [stranger.address, 3n] },
              { account: zeroAddress, to: friend.address, value: parseEther('1') },
            ],
          },
          { calls: [ask, { account: stranger, ...transfer, args: [owner.address, 4n] }] },
        ],
      });
      const [first, second] = blocks;
      assert.deepEqual([first.number, first.timestamp], [head.number + 1n, head.timestamp + 60n]);
      assert.deepEqual(first.calls.map(({ status, result }) => [status, result]), [['success', true], ['success', null]]);
      assert.deepEqual([first.calls[0].logs.length, first.calls[1].gasUsed], [1, 21_000n]);
      assert.equal(second.calls[0].result, 3n, 'on the state that the block before left');
      assert.equal(second.calls[1].status, 'failure');
      assert.equal(second.parentHash, first.hash);
      assert.equal(await balanceOf(stranger), 0n, 'nothing happened');
    },

    async 'revert reason'() {
      const attempt = { ...deployed, functionName: 'transfer', args: [owner.address, 1n] };
      const saysWhy = (error) => {
        const { data } = error.walk((cause) => cause.name === 'ContractFunctionRevertedError');
        assert.equal(data.errorName, 'ERC20InsufficientBalance');
        assert.deepEqual(data.args, [stranger.address, 0n, 1n]);
        return true;
      };
      await assert.rejects(client.simulateContract({ ...attempt, account: stranger }), saysWhy);
      await assert.rejects(client.estimateContractGas({ ...attempt, account: stranger }), saysWhy);
      // With a gas limit it is sent nevertheless, and the receipt shows the failure.
      const receipt = await wait(await node.wallet(stranger).writeContract({ ...attempt, gas: 200_000n }));
      assert.equal(receipt.status, 'reverted');
    },

    async refusals() {
      const poor = { account: zeroAddress, to: friend.address };
      const refused = (request, name) => assert.rejects(request, (error) => error.walk((cause) => cause.name === name) !== null);
      await refused(wallet.sendTransaction({ to: friend.address, value: parseEther('1000000000') }), 'InsufficientFundsError');
      await refused(wallet.sendTransaction({ to: friend.address, nonce: 0, gas: 21_000n }), 'NonceTooLowError');
      await refused(wallet.sendTransaction({ to: friend.address, gas: 20_000n }), 'IntrinsicGasTooLowError');
      await refused(wallet.sendTransaction({ to: friend.address, gas: 21_000n, maxFeePerGas: 1n, maxPriorityFeePerGas: 0n }), 'FeeCapTooLowError');
      // Type 4 is not supported.
      const authorizationList = [await wallet.signAuthorization({ address: stranger.address })];
      await assert.rejects(wallet.sendTransaction({ to: friend.address, gas: 100_000n, authorizationList }), /transaction type not supported/);
      await refused(client.estimateGas({ ...poor, value: parseEther('1000000000') }), 'InsufficientFundsError');
      await refused(client.getTransactionReceipt({ hash: `0x${'12'.repeat(32)}` }), 'TransactionReceiptNotFoundError');
      await refused(client.getBlock({ blockNumber: 1_000_000n }), 'BlockNotFoundError');
    },

    async logs() {
      const receipt = await transferTokens(friend, 5n);
      const [event] = parseEventLogs({ abi: token.abi, logs: receipt.logs, eventName: 'Transfer' });
      assert.deepEqual(event.args, { from: owner.address, to: friend.address, value: 5n });
      const transfers = { ...deployed, eventName: 'Transfer', args: { to: friend.address } };
      const found = await client.getContractEvents({ ...transfers, fromBlock: 'earliest', toBlock: 'latest' });
      assert.deepEqual(found.map(({ args }) => args.value), [1000n, 5n]);
      const inBlock = await client.getContractEvents({ ...transfers, blockHash: receipt.blockHash });
      assert.deepEqual(inBlock.map(({ transactionHash }) => transactionHash), [receipt.transactionHash]);
      assert.deepEqual(await client.getContractEvents({ ...transfers, args: { to: stranger.address }, fromBlock: 0n }), []);
    },

    async filters() {
      const blocks = await client.createBlockFilter();
      const pending = await client.createPendingTransactionFilter();
      const transfers = await client.createContractEventFilter({ ...deployed, eventName: 'Transfer', args: { to: friend.address }, fromBlock: 0n });
      const { transactionHash, blockHash } = await transferTokens(friend, 6n);
      assert.ok((await client.getFilterChanges({ filter: blocks })).includes(blockHash));
      assert.ok((await client.getFilterChanges({ filter: pending })).includes(transactionHash));
      const amounts = (logs) => logs.map(({ args }) => args.value);
      assert.deepEqual(amounts(await client.getFilterChanges({ filter: transfers })).slice(-1), [6n]);
      assert.deepEqual(amounts(await client.getFilterChanges({ filter: transfers })), []);
      assert.deepEqual(amounts(await client.getFilterLogs({ filter: transfers })), [1000n, 5n, 6n]);
      for (const filter of [blocks, pending, transfers]) {
        assert.equal(await client.uninstallFilter({ filter }), true);
        assert.equal(await client.uninstallFilter({ filter }), false);
        await assert.rejects(client.getFilterChanges({ filter }), /filter not found/);
      }
    },

    async subscription() {
      const listener = createPublicClient({ chain: network.chain, transport: webSocket(node.rpc.replace(/^http/, 'ws')) });
      const unwatch = [];
      const heard = (watch) => new Promise((resolve, reject) => unwatch.push(watch(resolve, reject)));
      const block = heard((onBlock, onError) => listener.watchBlocks({ onBlock, onError }));
      const logs = heard((onLogs, onError) => listener.watchContractEvent({ ...deployed, eventName: 'Transfer', onLogs, onError }));
      const hashes = heard((onTransactions, onError) => listener.watchPendingTransactions({ onTransactions, onError }));
      // Subscriptions are active once a later request on the same connection is answered.
      await listener.getChainId();
      const receipt = await transferTokens(friend, 8n);
      assert.equal((await block).hash, receipt.blockHash);
      assert.deepEqual((await logs).map(({ args, transactionHash }) => [args.value, transactionHash]), [[8n, receipt.transactionHash]]);
      assert.deepEqual(await hashes, [receipt.transactionHash]);
      for (const end of unwatch) end();
      (await listener.transport.getRpcClient()).close();
    },

    async batch() {
      const batching = createPublicClient({ chain: network.chain, transport: http(node.rpc, { batch: true, retryCount: 0 }), cacheTime: 0 });
      const [chainId, balances, refusal] = await Promise.all([
        batching.getChainId(),
        Promise.all(accounts.map(({ address }) => batching.getBalance({ address }))),
        batching.request({ method: 'eth_noSuchMethod' }).catch((error) => error),
      ]);
      assert.equal(chainId, network.chain.id);
      assert.equal(balances.length, accounts.length);
      assert.equal(refusal.code, -32601);
    },

    async 'replace and cancel'() {
      const first = await client.getTransactionCount({ address: friend.address, blockTag: 'pending' });
      const fees = await client.estimateFeesPerGas();
      const twice = { maxFeePerGas: fees.maxFeePerGas * 2n, maxPriorityFeePerGas: fees.maxPriorityFeePerGas * 2n };
      const sender = node.wallet(friend);
      const send = (nonce, value, more) => sender.sendTransaction({ nonce, to: stranger.address, value, gas: 21_000n, ...more });
      // After a nonce gap, transactions are pending until they are replaced.
      const replaced = await send(first + 1, 1n, fees);
      const cancelled = await send(first + 2, 2n, fees);
      assert.equal((await client.getTransaction({ hash: replaced })).blockHash, null);
      await assert.rejects(send(first + 1, 3n, fees), /replacement transaction underpriced/);
      const reasons = [];
      const waits = [replaced, cancelled].map((hash, index) =>
        client.waitForTransactionReceipt({ hash, onReplaced: ({ reason }) => (reasons[index] = reason), replacement: { from: friend.address, nonce: first + 1 + index } }),
      );
      // All in one block. viem searches replacements only in blocks that it is notified of, and here this remains the
      // newest block. With two blocks it would miss the first one if its own first request took too long.
      await client.request({ method: 'evm_setAutomine', params: [false] });
      const replacement = await send(first + 1, 3n, twice);
      const cancellation = await sender.sendTransaction({ nonce: first + 2, to: friend.address, value: 0n, gas: 21_000n, ...twice });
      const opening = await send(first, 4n, fees);
      await client.request({ method: 'evm_mine' });
      await client.request({ method: 'evm_setAutomine', params: [true] });
      assert.equal((await wait(opening)).status, 'success');
      const receipts = await Promise.all(waits);
      assert.deepEqual(receipts.map(({ transactionHash }) => transactionHash), [replacement, cancellation]);
      assert.deepEqual(reasons, ['replaced', 'cancelled']);
    },

    trace: serves('debug_traceTransaction', 'debug_traceCall')
      ? async () => {
          const traced = (hash) => client.request({ method: 'debug_traceTransaction', params: [hash, CALL_TRACER] });
          const { abi, address } = deployed;
          const receipt = await transferTokens(friend, 9n);
          assertTransferTraced(await traced(receipt.transactionHash), { from: owner.address, token: address, receipt });
          const attempt = { ...deployed, functionName: 'transfer', args: [owner.address, 1n] };
          const failed = await wait(await node.wallet(stranger).writeContract({ ...attempt, gas: 200_000n }));
          assert.equal(failed.status, 'reverted');
          const reverted = await traced(failed.transactionHash);
          assertRevertTraced(reverted, { from: stranger.address, token: address, abi });
          const calls = [
            { target: address, allowFailure: false, callData: encodeFunctionData({ abi, functionName: 'name' }) },
            { target: address, allowFailure: true, callData: encodeFunctionData(attempt) },
          ];
          const nested = await wait(await wallet.writeContract({ address: MULTICALL3, abi: multicall3Abi, functionName: 'aggregate3', args: [calls] }));
          assertNestedTraced(await traced(nested.transactionHash), { from: owner.address, token: address, abi });
          // A call without a transaction.
          const call = { from: stranger.address, to: address, data: encodeFunctionData(attempt) };
          const tried = await client.request({ method: 'debug_traceCall', params: [call, 'latest', CALL_TRACER] });
          assertRevertTraced(tried, { from: stranger.address, token: address, abi });
        }
      : 'the node has no tracer',
  };
});
