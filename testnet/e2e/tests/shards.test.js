// A sharded chain: replicas and gateways as processes. Wallets use it as any other chain, contracts call each other across shards, and
// crashes of replicas and gateways lose nothing.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { promisify } from 'node:util';
import { parseEther } from 'viem';
import { abi, bytecode } from '../../js/contracts.js';
import { agree, corniche, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

const run = promisify(execFile);
const token = abi('erc20');
const [pool, router] = ['exchange/pool', 'exchange/router'].map(abi);
const supply = 10n ** 12n;
/** Time for which replicas remember what is decided. */
const KEEP_MS = 15_000;
const forever = 2n ** 64n - 1n;
const ZERO = `0x${'0'.repeat(64)}`;

test('two shards and two gateways', { timeout: 600_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { engine: 'basil', shards: 2, gateways: 2, explorer: true, parameters: ['close_after_ms=1000', `keep_ms=${KEEP_MS}`] });
  const [first, second] = network.gateways;
  const [owner, friend, stranger] = network.accounts;
  const shardOf = async (address) => Number((await first.call('corniche_getShard', address)).result);
  const way = async (hash, node = first) => (await node.call('corniche_getShardedTransaction', hash)).result;
  const read = (node, address, functionName, args = []) => node.client.readContract({ address, abi: token, functionName, args });
  /** The receipt once the transaction is in a block, on this gateway. */
  const inBlock = (node, hash) =>
    until(`${hash} to be in a block of ${node.name}`, async () => {
      const receipt = await node.client.getTransactionReceipt({ hash });
      return receipt.blockHash !== ZERO && receipt;
    });
  const deploy = async (name, code, args = []) => {
    const hash = await first.wallet(owner).deployContract({ abi: abi(name), bytecode: bytecode(code), args });
    const receipt = await first.receipt(hash);
    assert.equal(receipt.status, 'success', name);
    return receipt.contractAddress;
  };
  const write = async (node, account, address, of, functionName, args) => {
    const hash = await node.wallet(account).writeContract({ address, abi: of, functionName, args });
    return node.receipt(hash);
  };
  const sent = [];

  await step('every gateway sees all members', async () => {
    for (const gateway of network.gateways) {
      const shards = await until(`${gateway.name} to be connected`, async () => {
        const { result } = await gateway.call('corniche_getShards');
        return result.shards.every(({ replicas }) => replicas.every(({ connected }) => connected)) && result;
      });
      assert.deepEqual([shards.shards.length, shards.shards[1].replicas.length, shards.faulty], [2, 6, '0x1']);
      assert.deepEqual(shards.gateways.map(({ own }) => own), [gateway === first, gateway === second]);
    }
  });

  await step('a receipt comes before its block, and the newest state contains the payment', async () => {
    const before = await first.client.getBalance({ address: stranger.address });
    const hash = await first.wallet(owner).sendTransaction({ to: stranger.address, value: parseEther('1') });
    const early = await first.receipt(hash);
    assert.equal(early.status, 'success');
    assert.equal(early.blockHash, ZERO, 'its block is not closed');
    assert.ok(early.blockNumber > (await first.client.getBlockNumber()));
    assert.equal(await first.client.getBalance({ address: stranger.address }), before + parseEther('1'));
    assert.equal(await first.client.getTransactionCount({ address: owner.address }), 1);
    assert.equal((await first.call('corniche_getTransactionStatus', hash)).result.status, 'ordered');
    const receipt = await inBlock(first, hash);
    assert.equal(receipt.blockNumber, early.blockNumber, 'the number was known before');
    assert.deepEqual([receipt.gasUsed, receipt.logs], [early.gasUsed, early.logs]);
    // The other gateway makes the same block.
    await agree(network.gateways, receipt);
    const { way: how, shards, attempts } = await way(hash);
    assert.ok(['fast', 'logged'].includes(how), how);
    assert.equal(attempts, '0x1');
    const expected = await Promise.all([owner, stranger].map(({ address }) => shardOf(address)));
    assert.deepEqual(new Set(shards.map(Number)), new Set(expected));
    sent.push(receipt);
  });

  await step('a waiting request gets the receipt at once', async () => {
    const request = await first.wallet(owner).prepareTransactionRequest({ to: friend.address, value: 5n });
    const raw = await owner.signTransaction(request);
    const { result } = await first.call('eth_sendRawTransactionSync', raw);
    assert.equal(result.status, '0x1');
    const again = await first.call('eth_sendRawTransaction', raw);
    assert.match(again.error.message, /already known|nonce too low/);
    const poor = await first.wallet(owner).prepareTransactionRequest({ to: friend.address, value: parseEther('1000000'), gas: 21_000n }).then((it) => owner.signTransaction(it));
    assert.match((await first.call('eth_sendRawTransaction', poor)).error.message, /insufficient funds/);
  });

  await step('safe and finalized blocks have a certificate of both shards', async () => {
    const finalized = await until('a finalized block', async () => {
      const block = await first.client.getBlock({ blockTag: 'finalized' });
      return block.number >= sent[0].blockNumber && block;
    });
    assert.ok(finalized.number <= (await first.client.getBlockNumber()));
    const { result } = await first.call('corniche_getShardCertificate', `0x${sent[0].blockNumber.toString(16)}`);
    const signers = [...BigInt(result.signers).toString(2)].filter((bit) => bit === '1');
    assert.equal(signers.length, 10, '4f + 1 of each shard');
    assert.ok(Number(result.firstBlock) <= sent[0].blockNumber && sent[0].blockNumber <= Number(result.lastBlock));
    assert.equal((await first.call('corniche_getTransactionStatus', sent[0].transactionHash)).result.status, 'certified');
  });

  let gold;
  let silver;
  await step('a token is used through both gateways', async () => {
    gold = await deploy('erc20', 'erc20', ['Gold', 'GLD', supply]);
    assert.equal(await read(first, gold, 'name'), 'Gold');
    const receipt = await write(first, owner, gold, token, 'transfer', [friend.address, 1_000n]);
    assert.equal(receipt.logs.length, 1);
    assert.equal(await read(first, gold, 'balanceOf', [friend.address]), 1_000n);
    await inBlock(second, receipt.transactionHash);
    const back = await write(second, friend, gold, token, 'transfer', [owner.address, 400n]);
    assert.equal(back.status, 'success');
    const block = await inBlock(first, back.transactionHash);
    assert.equal(await read(first, gold, 'balanceOf', [friend.address]), 600n);
    const logs = await first.client.getContractEvents({ address: gold, abi: token, eventName: 'Transfer', fromBlock: 0n });
    assert.deepEqual(logs.map(({ args }) => args.value), [supply, 1_000n, 400n]);
    sent.push(block);
  });

  await step('an exchange trades tokens of two shards in one transaction', async () => {
    do silver = await deploy('erc20', 'erc20', ['Silver', 'SLV', supply]);
    while ((await shardOf(silver)) === (await shardOf(gold)));
    const pair = await deploy('exchange/pool', 'pool', [gold, silver]);
    const exchange = await deploy('exchange/router', 'router');
    for (const each of [gold, silver]) await write(first, owner, each, token, 'approve', [exchange, supply]);
    const joined = await write(first, owner, exchange, router, 'join', [pair, 1_000_000n, 4_000_000n, 1n, owner.address, forever]);
    assert.equal(joined.status, 'success');
    const swapped = await write(first, owner, exchange, router, 'swap', [gold, 1_000n, [pair], 1n, owner.address, forever]);
    assert.equal(swapped.status, 'success');
    const { shards, dependencies } = await way(swapped.transactionHash);
    assert.deepEqual(shards, ['0x0', '0x1']);
    assert.ok(dependencies.length > 0, 'it read what the transactions before it wrote');
    assert.equal(await read(first, gold, 'balanceOf', [pair]), 1_001_000n);
    assert.ok((await read(first, silver, 'balanceOf', [pair])) < 4_000_000n);
    // More than the pool gives: all of it is reverted, and the nonce is used.
    const wallet = first.wallet(owner);
    const hash = await wallet.writeContract({ address: exchange, abi: router, functionName: 'swap', args: [gold, 1_000n, [pair], 10n ** 9n, owner.address, forever], gas: 5_000_000n });
    assert.equal((await first.receipt(hash)).status, 'reverted');
    assert.equal(await read(first, gold, 'balanceOf', [pair]), 1_001_000n);
    sent.push(await inBlock(first, swapped.transactionHash));
  });

  await step('a replica of each shard is killed, and one loses its disk; payments go on', async () => {
    const victims = [network.replicas(0)[2], network.replicas(1)[4]];
    for (const victim of victims) victim.kill();
    await Promise.all(victims.map((victim) => victim.gone()));
    const hash = await first.wallet(friend).sendTransaction({ to: stranger.address, value: 7n });
    const receipt = await first.receipt(hash);
    assert.equal(receipt.status, 'success');
    assert.equal((await way(hash)).way, 'logged', 'without all votes, one shard logs the decision');
    const block = await inBlock(first, hash);
    await until('its block to be finalized', async () => (await first.client.getBlock({ blockTag: 'finalized' })).number >= block.blockNumber);
    victims[1].loseDisk();
    await Promise.all(victims.map((victim) => victim.restart()));
    sent.push(block);
    // The one without a disk votes again after it copied the state.
    const shards = await Promise.all(network.accounts.map(({ address }) => shardOf(address)));
    const payee = network.accounts[shards.indexOf(1)];
    await until('all replicas to vote', async () => {
      const paid = await first.wallet(owner).sendTransaction({ to: payee.address, value: 1n });
      await first.receipt(paid);
      return (await way(paid)).way === 'fast';
    });
    assert.match(readFileSync(victims[1].log, 'utf8'), /the state is copied/);
  });

  await step('a gateway is killed with a transaction, and another one finishes it', async () => {
    const wallet = first.wallet(stranger);
    const request = await wallet.prepareTransactionRequest({ to: friend.address, value: 3n });
    const raw = await stranger.signTransaction(request);
    const { result: hash } = await first.call('eth_sendRawTransaction', raw);
    first.kill();
    await first.gone();
    // The wallet submits it again, elsewhere. It happens once, at any state of the first gateway.
    const before = await second.client.getTransactionCount({ address: stranger.address });
    const { result, error } = await second.call('eth_sendRawTransaction', raw);
    if (error) assert.match(error.message, /already known|nonce too low/);
    else assert.equal(result, hash);
    const receipt = await inBlock(second, hash);
    assert.equal(receipt.status, 'success');
    assert.equal(await second.client.getTransactionCount({ address: stranger.address }), before + (error ? 0 : 1));
    await first.restart();
    await agree(network.gateways, receipt);
    for (const earlier of sent) await agree(network.gateways, earlier);
    sent.push(receipt);
  });

  await step('a gateway and a replica that were away for long catch up', async () => {
    const away = [second, network.replicas(0)[5]];
    for (const one of away) one.kill();
    await Promise.all(away.map((one) => one.gone()));
    const since = Date.now();
    const hash = await first.wallet(owner).sendTransaction({ to: friend.address, value: 9n });
    sent.push(await inBlock(first, hash));
    const complete = async () => Number((await (await fetch(network.replicas(0)[0].metrics)).text()).match(/complete_ms (\d+)/)[1]);
    await until('the replicas to forget', async () => (await complete()) > since + KEEP_MS + 2_000);
    await Promise.all(away.map((one) => one.restart()));
    await agree([second], sent.at(-1));
    assert.match(readFileSync(second.log, 'utf8'), /asking other gateways/);
    await until('the replica to vote again', async () => {
      const paid = await first.wallet(owner).sendTransaction({ to: friend.address, value: 1n });
      await first.receipt(paid);
      return (await way(paid)).way === 'fast';
    });
    assert.match(readFileSync(away[1].log, 'utf8'), /the state is copied/);
    for (const earlier of sent) await agree(network.gateways, earlier);
  });

  await step('the explorer shows the way of a transaction', async () => {
    const { transactionHash, blockNumber } = sent[2];
    const page = async (path) => (await fetch(network.explorer + path)).text();
    await until('the explorer to have the trade', async () => (await page(`/tx/${transactionHash}`)).includes('Read what these wrote'));
    assert.match(await page('/network'), /Finished for another gateway/);
    assert.match(await page(`/address/${gold}`), /Shard/);
    await until('its block to be shown as certified', async () => {
      const text = await page(`/block/${blockNumber}`);
      return text.includes(transactionHash) && !text.includes('data-live="block-page"');
    });
  });

  await step('the offline checker accepts the history of both gateways', async () => {
    for (const gateway of network.gateways) {
      await until('everything to be finalized', async () => (await gateway.client.getBlock({ blockTag: 'finalized' })).number >= sent.at(-1).blockNumber);
      gateway.kill();
      await gateway.gone();
      const { stdout } = await run(corniche, ['shards', 'check', '--config', gateway.config, '--data', gateway.dataDir]);
      assert.match(stdout, /\d+ transactions in \d+ blocks are serializable/);
    }
  });
});
