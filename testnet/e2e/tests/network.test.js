// A first network: a wallet deploys a token and uses it, all nodes agree, and neither a crash of one validator
// nor of all loses anything.

import assert from 'node:assert/strict';
import { keccak256, parseEther, parseEventLogs, toHex, toRlp } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { abi, bytecode } from '../../js/contracts.js';
import { withNetwork, underEveryEngine } from '../../js/network.js';
import { quantity } from '../../js/transactions.js';
import { until } from '../../js/until.js';

const token = abi('erc20');
const supply = parseEther('1000000');

/** Lanes of batches, and slots decided by one of these rules: engines for crashes. */
const lanesOfBatches = (rules) => ({ vertices }, committed) => {
  const lanes = new Map(vertices.map((batch) => [`${batch.author} ${Number(batch.round)}`, batch]));
  for (const { author, round, parents } of vertices) {
    const below = lanes.get(`${author} ${Number(round) - 1}`);
    if (below) assert.deepEqual(parents, [below.digest], 'a batch is on the one before it in its lane');
  }
  for (const { why } of committed) assert.ok([...rules, 'learned'].includes(why), why);
};

/** Form of `corniche_getDag`, by engine. */
const shape = {
  'mahi-mahi'({ vertices, order, fromRound }, committed) {
    const known = new Map(vertices.map((vertex) => [vertex.digest, vertex]));
    for (const { round, validator, digest } of committed) {
      const { round: at, author } = known.get(digest);
      assert.deepEqual([at, author], [round, validator], 'what is committed for a slot is a proposal of its leader');
    }
    for (const digest of order) assert.ok(known.has(digest));
    for (const { round, parents } of vertices) {
      if (Number(round) > Number(fromRound) + 1) assert.ok(parents.length >= 3, `a proposal of round ${round} is on a quorum`);
    }
  },
  autobahn({ vertices, slots, order }, committed) {
    const lanes = new Map(vertices.map((car) => [`${car.author} ${Number(car.round)}`, car]));
    for (const { author, round, parents } of vertices) {
      const below = lanes.get(`${author} ${Number(round) - 1}`);
      if (below) assert.deepEqual(parents, [below.digest], 'a car is on the one before it in its lane');
    }
    // A slot commits a cut through all lanes, which is not a car.
    assert.deepEqual(order, committed.slice(0, order.length).map(({ digest }) => digest));
    assert.equal(new Set(slots.map(({ round }) => round)).size, slots.length, 'a slot has one leader');
  },
  quepaxa: lanesOfBatches(['leader', 'common']),
  'sadl-racs': lanesOfBatches(['votes', 'coin']),
  baxos: lanesOfBatches(['proposed', 'adopted']),
  mir({ vertices, slots, order }, committed) {
    for (const { why } of committed) assert.match(why, /^committed in epoch \d+$/);
    const batches = new Map(vertices.map((batch) => [batch.digest, batch]));
    for (const { digest, round } of committed) {
      const batch = batches.get(digest);
      if (batch) assert.equal(batch.round, round, 'a number commits a batch that was proposed for it');
    }
    assert.equal(new Set(slots.map(({ round }) => round)).size, slots.length, 'a number has one batch');
    assert.ok(order.every((digest) => committed.some((slot) => slot.digest === digest)), 'what is ordered is committed');
  },
  neobft({ vertices, order }, committed) {
    for (const { why } of committed) assert.match(why, /^packet \d+ of epoch 0$/, 'the sequencer numbers every slot');
    const requests = new Map(vertices.map((request) => [request.digest, request]));
    for (const { digest, round, validator } of committed) {
      const request = requests.get(digest);
      // Heartbeats have no author.
      if (request) assert.deepEqual([request.round, request.author], [round, validator], 'the leader of a slot is the author of its request');
    }
    assert.ok(order.every((digest) => committed.some((slot) => slot.digest === digest)), 'what is ordered is committed');
  },
};

underEveryEngine('four validators and a full node', { also: ['mir', 'quepaxa', 'sadl-racs', 'baxos'], timeout: 600_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine });

  const [first, , , last] = network.validators;
  const [owner, friend, stranger] = network.accounts;
  /** Every received receipt, to be checked again after crashes. */
  const receipts = [];
  let address;

  const write = async (node, account, functionName, args) => {
    const hash = await node.wallet(account).writeContract({ address, abi: token, functionName, args });
    const receipt = await node.receipt(hash);
    assert.equal(receipt.status, 'success');
    receipts.push(receipt);
    return receipt;
  };
  const read = (node, functionName, args) => node.client.readContract({ address, abi: token, functionName, args });
  const transfer = (node, to, amount) => write(node, owner, 'transfer', [to.address, amount]);

  /** Waits until these nodes have the block and checks that it, and the balances in it, are equal. */
  const agree = async (nodes, number) => {
    const seen = await Promise.all(
      nodes.map(async (node) => {
        const { hash, stateRoot, transactionsRoot, receiptsRoot } = await node.block(number);
        return { hash, stateRoot, transactionsRoot, receiptsRoot };
      }),
    );
    for (const block of seen) assert.deepEqual(block, seen[0]);
    const balances = await Promise.all(
      nodes.map((node) => Promise.all([owner, friend, stranger].map((account) => read(node, 'balanceOf', [account.address])))),
    );
    for (const balance of balances) assert.deepEqual(balance, balances[0]);
    assert.equal(balances[0].reduce((sum, balance) => sum + balance), supply);
    return balances[0];
  };

  await step('all nodes have the same genesis', async () => {
    const blocks = await Promise.all(network.nodes.map((node) => node.block(0n)));
    for (const block of blocks) assert.equal(block.hash, blocks[0].hash);
  });

  await step('a wallet deploys a token written in Rust, constructor included', async () => {
    const hash = await first.wallet(owner).deployContract({ abi: token, bytecode: bytecode('erc20'), args: ['Cornice', 'CRN', supply] });
    const receipt = await first.receipt(hash);
    assert.equal(receipt.status, 'success');
    receipts.push(receipt);
    address = receipt.contractAddress;
    assert.equal(await read(first, 'name'), 'Cornice');
    assert.equal(await read(first, 'totalSupply'), supply);
    assert.equal(await read(first, 'balanceOf', [owner.address]), supply);
  });

  await step('a transfer moves tokens and leaves an event', async () => {
    const receipt = await transfer(first, friend, 1000n);
    const [event] = parseEventLogs({ abi: token, logs: receipt.logs, eventName: 'Transfer' });
    assert.deepEqual(event.args, { from: owner.address, to: friend.address, value: 1000n });
    const found = await first.client.getContractEvents({
      address,
      abi: token,
      eventName: 'Transfer',
      args: { to: friend.address },
      fromBlock: 0n,
      toBlock: 'latest',
    });
    assert.deepEqual(found.map((log) => log.transactionHash), [receipt.transactionHash]);
    assert.equal(found[0].blockHash, receipt.blockHash);
  });

  await step('contract errors are named', async () => {
    const attempt = first.client.simulateContract({
      account: stranger,
      address,
      abi: token,
      functionName: 'transfer',
      args: [owner.address, 1n],
    });
    await assert.rejects(attempt, (error) => {
      assert.equal(error.walk((cause) => cause.name === 'ContractFunctionRevertedError').data.errorName, 'ERC20InsufficientBalance');
      return true;
    });
  });

  await step('the block hash is the hash of the header', async () => {
    const { result: block } = await first.call('eth_getBlockByNumber', 'latest', false);
    const fields = [
      block.parentHash, block.sha3Uncles, block.miner, block.stateRoot, block.transactionsRoot, block.receiptsRoot, block.logsBloom,
      quantity(block.difficulty), quantity(block.number), quantity(block.gasLimit), quantity(block.gasUsed), quantity(block.timestamp),
      block.extraData, block.mixHash, block.nonce, quantity(block.baseFeePerGas),
    ];
    assert.equal(keccak256(toRlp(fields)), block.hash);
  });

  await step('every node sees the same balances, block hashes and state roots', async () => {
    const balances = await agree(network.nodes, receipts.at(-1).blockNumber);
    assert.deepEqual(balances, [supply - 1000n, 1000n, 0n]);
  });

  await step('a quorum certifies executed blocks', async () => {
    const { blockNumber } = receipts.at(-1);
    for (const node of network.nodes) {
      await until(`${node.name} to see block ${blockNumber} finalized`, async () => {
        const { number } = await node.client.getBlock({ blockTag: 'finalized' });
        return number >= blockNumber;
      });
    }
  });

  await step('a validator serves proposals and commits', async () => {
    // Lanes of Autobahn contain proposals of a sender's owner. With this many senders, every lane has some.
    const senders = Array.from({ length: 64 }, (_, index) => privateKeyToAccount(keccak256(toHex(`sender ${index}`))));
    const fees = { gas: 21_000n, maxFeePerGas: 50n * 10n ** 9n, maxPriorityFeePerGas: 1n };
    const pay = (from, nonce, to, value) => first.wallet(from).sendTransaction({ to: to.address, value, nonce, ...fees });
    const begin = await first.client.getTransactionCount({ address: stranger.address });
    const funded = await Promise.all(senders.map((sender, index) => pay(stranger, begin + index, sender, parseEther('0.01'))));
    await Promise.all(funded.map((hash) => first.receipt(hash)));
    const paid = await Promise.all(senders.map((sender) => pay(sender, 0, stranger, 1n)));
    await Promise.all(paid.map((hash) => first.receipt(hash)));
    for (const node of network.validators) {
      const { blockNumber } = await transfer(node, friend, 1n);
      await agree(network.nodes, blockNumber);
    }
    const committed = ({ slots }) => slots.filter(({ status }) => status === 'committed');
    const { result: ordering } = await first.call('corniche_getOrdering', toHex(receipts.at(-1).blockNumber));
    const dag = await until('proposals of all four validators and committed slots', async () => {
      const { result, error } = await first.call('corniche_getDag', 'latest', '0x64');
      if (error) throw new Error(error.message);
      const authors = new Set(result.vertices.map(({ author }) => Number(author)));
      const delivered = result.slots.some(({ commit }) => commit === ordering.lastCommit);
      return authors.size === 4 && delivered && result.order.length > 0 && result;
    });
    for (const { author, digest } of ordering.batches) {
      const carried = dag.vertices.some((vertex) => vertex.author === author && vertex.batchDigest === digest);
      assert.ok(carried, `no proposal of validator ${Number(author)} has the batch ${digest}`);
    }
    assert.ok(committed(dag).every(({ why }) => why.length > 0));
    // Nobody knows the slot of a request when its author signs it.
    const own = engine !== 'neobft' && dag.vertices.filter(({ proposedMs }) => proposedMs !== undefined);
    if (own) assert.ok(own.length > 0 && own.every(({ author }) => author === own[0].author));
    shape[engine](dag, committed(dag));
    const { error } = await network.fullNodes[0].call('corniche_getDag', 'latest', '0x1');
    assert.equal(error.code, -32000);
  });

  await step('a full node forwards transactions', async () => {
    const [follower] = network.fullNodes;
    const receipt = await transfer(follower, stranger, 5n);
    await agree(network.nodes, receipt.blockNumber);
  });

  await step('three validators continue and the fourth catches up', async () => {
    last.kill();
    await last.gone();
    const others = network.nodes.filter((node) => node !== last);
    for (let count = 0; count < 5; count += 1) {
      const { blockNumber } = await transfer(network.validators[count % 3], friend, 1n);
      // The nonce is queried at the next validator.
      await agree(others, blockNumber);
    }
    await last.restart();
    await agree(network.nodes, receipts.at(-1).blockNumber);
    const receipt = await transfer(last, friend, 1n);
    await agree(network.nodes, receipt.blockNumber);
  });

  await step('a crash of all validators loses no receipt', async () => {
    // Some transactions are in flight during the power cut.
    const nonce = await first.client.getTransactionCount({ address: friend.address, blockTag: 'pending' });
    const wallet = first.wallet(friend);
    for (let count = 0; count < 20; count += 1) {
      await wallet.sendTransaction({ to: stranger.address, value: 1n, nonce: nonce + count, gas: 21_000n });
    }
    await transfer(network.validators[1], friend, 7n);
    for (const node of network.validators) node.kill();
    await Promise.all(network.validators.map((node) => node.gone()));
    await Promise.all(network.validators.map((node) => node.restart()));

    for (const node of network.validators) {
      for (const receipt of receipts) {
        const { blockHash, blockNumber, status, gasUsed } = await until(`${node.name} to have ${receipt.transactionHash}`, () =>
          node.client.getTransactionReceipt({ hash: receipt.transactionHash }),
        );
        assert.deepEqual(
          { blockHash, blockNumber, status, gasUsed },
          { blockHash: receipt.blockHash, blockNumber: receipt.blockNumber, status: receipt.status, gasUsed: receipt.gasUsed },
        );
      }
    }
    const receipt = await transfer(first, stranger, 11n);
    assert.ok(receipt.blockNumber > receipts.at(-2).blockNumber);
    await agree(network.nodes, receipt.blockNumber);
  });
});
