// Foundry's cast, which is alloy underneath: https://getfoundry.sh/cast

import assert from 'node:assert/strict';
import { encodeAbiParameters, getContractAddress } from 'viem';
import { Cast, binary } from '../lib/cast.js';
import { supply, token, tour, until } from '../lib/tour.js';

const TRANSFER_EVENT = 'Transfer(address indexed from, address indexed to, uint256 value)';

const skip = binary ? false : 'there is no cast for this machine: install one, and set CAST to its path';

const visit = ({ network, node, keys, accounts, serves }) => {
  const cast = new Cast(node.rpc, network.directory);
  const [owner, friend, stranger] = accounts;
  const by = (account) => ['--private-key', keys[accounts.indexOf(account)]];
  let address;

  const balance = async (account, ...more) => BigInt(await cast.run('balance', account.address, ...more));
  const send = (...args) => cast.json('send', ...by(owner), ...args);
  const transferTokens = (to, amount) => send(address, 'transfer(address,uint256)', to.address, amount);
  const tokensOf = (account, ...more) => cast.json('call', address, 'balanceOf(address)(uint256)', account.address, ...more);

  return {
    async accounts() {
      assert.equal(await cast.run('chain-id'), String(network.chain.id));
      assert.deepEqual(await cast.rpc('eth_accounts'), [], 'a node holds no keys');
      assert.ok((await balance(owner)) > 0n);
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
        const before = await balance(stranger);
        const receipt = await send(stranger.address, '--value', 7, ...flags);
        assert.deepEqual([receipt.status, receipt.type, Number(receipt.gasUsed)], ['0x1', type, gas]);
        assert.equal(await balance(stranger), before + 7n);
        assert.equal(await balance(stranger, '--block', Number(receipt.blockNumber) - 1), before);
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
        const metrics = await (await fetch(new URL('/metrics', node.rpc))).text();
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
      // Behind a gap they wait until they are replaced.
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

    trace: serves('debug_traceTransaction')
      ? async () => {
          const { transactionHash } = await transferTokens(friend, 9);
          const trace = await cast.rpc('debug_traceTransaction', transactionHash, { tracer: 'callTracer' });
          assert.deepEqual([trace.type, trace.from, trace.to], ['CALL', owner.address.toLowerCase(), address]);
        }
      : 'the node has no tracer',
  };
};

tour('cast', visit, { skip });
