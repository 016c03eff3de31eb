// Foundry's cast, which is based on alloy: https://getfoundry.sh/cast

import assert from 'node:assert/strict';
import { encodeAbiParameters, getContractAddress } from 'viem';
import { Cast, binary } from '../lib/cast.js';
import {
  CALL_TRACER,
  MULTICALL3,
  assertNestedTraced,
  assertRevertTraced,
  assertTransferTraced,
  supply,
  token,
  tour,
  until,
} from '../lib/tour.js';

const TRANSFER_EVENT = 'Transfer(address indexed from, address indexed to, uint256 value)';
const AGGREGATE3 = 'aggregate3((address,bool,bytes)[])((bool,bytes)[])';

const skip = binary ? false : 'there is no cast for this machine: install one, and set CAST to its path';

const visit = ({ network, node, keys, accounts, serves }) => {
  const cast = new Cast(node.rpc, network.directory);
  const [owner, friend, stranger, other] = accounts;
  const by = (account) => ['--private-key', keys[accounts.indexOf(account)]];
  let address;

  const funded = async (account, ...more) => BigInt(await cast.run('balance', account.address, ...more));
  const send = (...args) => cast.json('send', ...by(owner), ...args);
  const transferTokens = (to, amount) => send(address, 'transfer(address,uint256)', to.address, amount);
  const tokensOf = (account, ...more) => cast.json('call', address, 'balanceOf(address)(uint256)', account.address, ...more);
  /** A call of the token for Multicall3, which may fail. */
  const part = async (signature, ...args) => `(${address},true,${await cast.run('calldata', signature, ...args)})`;

  return {
    async accounts() {
      assert.equal(await cast.run('chain-id'), String(network.chain.id));
      assert.deepEqual(await cast.rpc('eth_accounts'), network.accounts.map(({ address }) => address.toLowerCase()));
      assert.ok((await funded(owner)) > 0n);
      for (const tag of ['latest', 'safe', 'finalized', 'pending', 'earliest']) {
        assert.equal(await cast.run('nonce', owner.address, '--block', tag), '0');
        assert.equal(await cast.run('block', tag, '--field', 'number'), '0');
      }
      assert.equal(await cast.run('code', owner.address), '0x');
      assert.match(await cast.run('client'), /^corniche\//);
    },

    async fees() {
      const baseFee = BigInt(await cast.run('base-fee'));
      assert.ok(baseFee > 0n);
      assert.ok(BigInt(await cast.run('gas-price')) >= baseFee);
      assert.equal((await cast.rpc('eth_feeHistory', '0x5', 'latest', [10, 50, 90])).oldestBlock, '0x0');
      assert.equal(await cast.run('estimate', friend.address, '--value', 1, '--from', owner.address), '21000');
    },

    async 'transfers of types 0, 1 and 2'() {
      const accessList = JSON.stringify([{ address: stranger.address, storageKeys: [`0x${'00'.repeat(32)}`] }]);
      const gasPrice = 2n * BigInt(await cast.run('gas-price'));
      for (const [type, flags, gas] of [
        ['0x0', ['--legacy'], 21_000],
        ['0x1', ['--legacy', '--access-list', accessList], 21_000 + 2_400 + 1_900],
        ['0x2', [], 21_000],
        ['0x2', ['--access-list', accessList, '--gas-price', gasPrice, '--priority-gas-price', 1], 21_000 + 2_400 + 1_900],
      ]) {
        const before = await funded(stranger);
        const receipt = await send(stranger.address, '--value', 7, ...flags);
        assert.deepEqual([receipt.status, receipt.type, Number(receipt.gasUsed)], ['0x1', type, gas]);
        assert.equal(await funded(stranger), before + 7n);
        assert.equal(await funded(stranger, '--block', Number(receipt.blockNumber) - 1), before);
        const transaction = await cast.json('tx', receipt.transactionHash);
        assert.deepEqual([transaction.type, transaction.from, transaction.value], [type, owner.address.toLowerCase(), '0x7']);
      }
    },

    async deploy() {
      const nonce = BigInt(await cast.run('nonce', owner.address));
      const args = encodeAbiParameters(token.abi.find(({ type }) => type === 'constructor').inputs, ['Cornice', 'CRN', supply]);
      const receipt = await send('--create', token.bytecode + args.slice(2));
      assert.equal(receipt.status, '0x1');
      address = receipt.contractAddress;
      assert.equal(address, getContractAddress({ from: owner.address, nonce }).toLowerCase());
      assert.match(await cast.run('code', address), /^0xeff00000/);
      assert.ok(Number(await cast.run('codesize', address)) > 4);
    },

    async call() {
      assert.deepEqual(await cast.json('call', address, 'name()(string)'), ['Cornice']);
      const { blockNumber, status } = await transferTokens(friend, 1000);
      assert.equal(status, '0x1');
      assert.equal((await send('--sync', friend.address, '--value', 1)).status, '0x1', 'the receipt as the answer to the transaction');
      assert.deepEqual((await tokensOf(friend)).map(String), ['1000']);
      assert.deepEqual((await tokensOf(friend, '--block', Number(blockNumber) - 1)).map(String), ['0']);
      assert.equal((await cast.run('erc20', 'balance', address, friend.address)).split(' ')[0], '1000');
    },

    async multicall() {
      const parts = [
        await part('symbol()'),
        await part('transfer(address,uint256)', friend.address, 1),
        await part('balanceOf(address)', friend.address),
      ];
      const [results] = await cast.json('call', MULTICALL3, AGGREGATE3, `[${parts}]`);
      assert.deepEqual(results.map(([success]) => success), [true, false, true]);
      const [symbol, failure, balance] = results.map(([, data]) => data);
      assert.deepEqual(await cast.json('decode-abi', 'symbol()(string)', symbol), ['CRN']);
      assert.equal(BigInt(balance), 1000n);
      // The caller is Multicall3 itself, which owns no tokens.
      const named = await cast.json('decode-error', '--sig', 'ERC20InsufficientBalance(address,uint256,uint256)', failure);
      assert.deepEqual(named.map(String), [MULTICALL3, '0', '1']);
      const funds = await cast.run('call', MULTICALL3, 'getEthBalance(address)(uint256)', friend.address);
      assert.equal(BigInt(funds.split(' ')[0]), await funded(friend));
    },

    async 'access list'() {
      const attempt = [address, 'transfer(address,uint256)', other.address, 1];
      const { accessList, gasUsed } = await cast.json('access-list', '--from', owner.address, ...attempt);
      assert.deepEqual(accessList.map((entry) => entry.address), [address]);
      assert.ok(accessList[0].storageKeys.length >= 2, 'the balances of both');
      // cast requests the list itself if `--access-list` has no value.
      for (const given of [[JSON.stringify(accessList)], []]) {
        const receipt = await send(...attempt, '--access-list', ...given);
        assert.equal(receipt.status, '0x1');
        if (given.length > 0) assert.equal(BigInt(receipt.gasUsed), BigInt(gasUsed));
      }
    },

    async 'simulated blocks'() {
      const head = Number(await cast.run('block-number'));
      const by = async (from, ...call) => ({ from: from.address, to: address, data: await cast.run('calldata', ...call) });
      const first = { blockOverrides: { number: `0x${(head + 5).toString(16)}` }, calls: [await by(owner, 'transfer(address,uint256)', stranger.address, 3)] };
      const calls = [await by(stranger, 'balanceOf(address)', stranger.address), await by(stranger, 'transfer(address,uint256)', owner.address, 4)];
      const blocks = await cast.rpc('eth_simulateV1', { blockStateCalls: [first, { calls }] }, 'latest');
      assert.deepEqual(blocks.map(({ number }) => Number(number) - head), [1, 2, 3, 4, 5, 6]);
      const [[moved], [asked, refusal]] = blocks.slice(-2).map((block) => block.calls);
      assert.deepEqual([moved.status, Number(asked.returnData), refusal.status, refusal.error.code], ['0x1', 3, '0x0', 3]);
      assert.deepEqual((await tokensOf(stranger)).map(String), ['0'], 'nothing happened');
    },

    async 'revert reason'() {
      const attempt = ['--from', stranger.address, address, 'transfer(address,uint256)(bool)', owner.address, 1];
      for (const command of ['call', 'estimate']) {
        const { message } = await cast.run(command, ...attempt).then(assert.fail, (error) => error);
        assert.match(message, /error code 3: execution reverted/);
        const [data] = message.match(/0x[0-9a-f]{200,}/);
        const named = await cast.json('decode-error', '--sig', 'ERC20InsufficientBalance(address,uint256,uint256)', data);
        assert.deepEqual(named.map(String), [stranger.address, '0', '1']);
      }
      const receipt = await cast.json('send', ...by(stranger), '--gas-limit', 200_000, address, 'transfer(address,uint256)', owner.address, 1);
      assert.equal(receipt.status, '0x0', 'whoever sends it all the same gets a receipt that says so');
    },

    async refusals() {
      const to = friend.address;
      const refused = (message, ...args) => assert.rejects(send(to, ...args), message);
      await refused(/insufficient funds/, '--value', 10n ** 30n, '--gas-limit', 21_000);
      await refused(/nonce too low/, '--nonce', 0);
      await refused(/intrinsic gas too low/, '--gas-limit', 20_000);
      await refused(/max fee per gas less than block base fee/, '--gas-limit', 21_000, '--gas-price', 1, '--priority-gas-price', 0);
      await assert.rejects(cast.run('block', 1_000_000), /not found/);
    },

    async logs() {
      const receipt = await transferTokens(friend, 5);
      const logs = (...range) => cast.json('logs', '--address', address, ...range, TRANSFER_EVENT, '', friend.address);
      const found = await logs('--from-block', 'earliest', '--to-block', 'latest');
      assert.deepEqual(found.map(({ data }) => Number(data)), [1000, 5]);
      assert.deepEqual(receipt.logs.map(({ topics, data }) => ({ topics, data })), found.slice(1).map(({ topics, data }) => ({ topics, data })));
      assert.equal(found[1].blockHash, receipt.blockHash);
    },

    async filters() {
      const blocks = await cast.rpc('eth_newBlockFilter');
      const transfers = await cast.rpc('eth_newFilter', { address, fromBlock: 'earliest' });
      const { blockHash } = await transferTokens(friend, 6);
      assert.ok((await cast.rpc('eth_getFilterChanges', blocks)).includes(blockHash));
      assert.equal((await cast.rpc('eth_getFilterLogs', transfers)).at(-1).blockHash, blockHash);
      assert.equal(await cast.rpc('eth_uninstallFilter', transfers), true);
      assert.equal(await cast.rpc('eth_uninstallFilter', transfers), false);
    },

    async subscription() {
      const metric = async () => {
        const metrics = await (await fetch(node.metrics)).text();
        return Number(metrics.match(/^corniche_rpc_subscriptions (\d+)/m)[1]);
      };
      const socket = node.rpc.replace(/^http/, 'ws');
      const { lines, end } = cast.watch(socket, 'logs', '--subscribe', '--address', address);
      try {
        await until('the subscription to stand', async () => (await metric()) > 0);
        const { transactionHash } = await transferTokens(friend, 8);
        for await (const line of lines) {
          const [, told] = line.match(/transactionHash: (0x\w+)/) ?? [];
          if (told === undefined) continue;
          assert.equal(told, transactionHash);
          break;
        }
      } finally {
        end();
      }
    },

    batch: 'cast sends one request at a time',

    async 'replace and cancel'() {
      const first = Number(await cast.run('nonce', friend.address, '--block', 'pending'));
      const price = BigInt(await cast.run('gas-price')) * 2n;
      const submit = (nonce, to, value, fee) =>
        cast.run(
          ...['send', '--async', ...by(friend), '--nonce', nonce, '--gas-limit', 21_000],
          ...['--gas-price', fee, '--priority-gas-price', fee / 2n, to.address, '--value', value],
        );
      // After a nonce gap, transactions are pending until they are replaced.
      const waiting = [await submit(first + 1, stranger, 1, price), await submit(first + 2, stranger, 2, price)];
      assert.equal((await cast.rpc('eth_getTransactionByHash', waiting[0])).blockHash, null);
      await assert.rejects(submit(first + 1, stranger, 3, price), /replacement transaction underpriced/);
      if (serves('txpool_status')) {
        const { pending, queued } = await cast.json('tx-pool', 'status');
        assert.deepEqual([pending, queued].map(Number), [0, 2]);
      }
      const replacement = await submit(first + 1, stranger, 3, price * 2n);
      const cancellation = await submit(first + 2, friend, 0, price * 2n);
      const opening = await submit(first, stranger, 4, price);
      for (const hash of [opening, replacement, cancellation]) {
        const receipt = await until(`the receipt of ${hash}`, () => cast.rpc('eth_getTransactionReceipt', hash));
        assert.equal(receipt.status, '0x1');
      }
      for (const hash of waiting) assert.equal(await cast.rpc('eth_getTransactionReceipt', hash), null);
      assert.equal(await cast.run('nonce', friend.address), String(first + 3));
    },

    trace: serves('debug_traceTransaction', 'debug_traceCall')
      ? async () => {
          const traced = (hash) => cast.rpc('debug_traceTransaction', hash, CALL_TRACER);
          const { abi } = token;
          const receipt = await transferTokens(friend, 9);
          assertTransferTraced(await traced(receipt.transactionHash), { from: owner.address, token: address, receipt });
          const failing = [address, 'transfer(address,uint256)', owner.address, 1];
          const failed = await cast.json('send', ...by(stranger), '--gas-limit', 200_000, ...failing);
          assertRevertTraced(await traced(failed.transactionHash), { from: stranger.address, token: address, abi });
          const parts = [await part('name()'), await part('transfer(address,uint256)', owner.address, 1)];
          const nested = await send(MULTICALL3, AGGREGATE3, `[${parts}]`);
          assertNestedTraced(await traced(nested.transactionHash), { from: owner.address, token: address, abi });
          // A call without a transaction.
          const call = { from: stranger.address, to: address, data: await cast.run('calldata', ...failing.slice(1)) };
          const tried = await cast.rpc('debug_traceCall', call, 'latest', CALL_TRACER);
          assertRevertTraced(tried, { from: stranger.address, token: address, abi });
        }
      : 'the node has no tracer',
  };
};

tour('cast', visit, { skip });
