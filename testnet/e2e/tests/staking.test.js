// A network with a staking contract. Requirements: accounts register validators and move stake through any node, also at the same
// time; all nodes agree about it, also one that lost its disk and executes the chain again; refused calls cost their fee only.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAbi, parseEther } from 'viem';
import { agree, corniche, underEveryEngine, withNetwork } from '../../js/network.js';
import { until } from '../../js/until.js';

const run = promisify(execFile);

const address = '0x000000000000000000000000000000000000C010';
const abi = parseAbi([
  'function add(uint32 id) payable',
  'function unbond(uint32 id, uint256 amount)',
  'function withdraw(uint32 id) returns (uint256)',
  'event Added(uint32 indexed id, uint256 amount)',
  'error NotOwner()',
  'error NothingFree()',
]);
/** Price of a vote, in whole units. The development accounts have 10,000 each. */
const VOTE = 100;

underEveryEngine('staking', { timeout: 600_000, except: ['neobft'] }, async (t, engine) => {
  const staking = [`vote_wei=${parseEther(String(VOTE))}`];
  const { network, step } = await withNetwork(t, { validators: 4, fullNodes: 1, engine, staking });
  const { validators, nodes, accounts } = network;
  const [fullNode] = network.fullNodes;
  const owners = [0, 1, 2];
  const stakes = async (node, blockNumber) => {
    const { result, error } = await node.call('corniche_getStaking', `0x${blockNumber.toString(16)}`);
    assert.equal(error, undefined);
    return result;
  };
  /** Checks that every node answers the same at the same block, and returns the answer. */
  const stakeEverywhere = async (receipt) => {
    const answers = await Promise.all(nodes.map(async (node) => {
      await until(`block ${receipt.blockNumber} at ${node.name}`, async () => (await node.client.getBlockNumber()) >= receipt.blockNumber);
      return stakes(node, receipt.blockNumber);
    }));
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    await agree(nodes, receipt);
    return answers[0];
  };
  const send = async (node, index, functionName, args, value) => {
    const hash = await node.wallet(accounts[index]).writeContract({ address, abi, functionName, args, value, gas: 300_000n });
    return node.receipt(hash);
  };

  await step('the validators of the genesis have stake', async () => {
    const { validators: listed, phase, votePrice } = await stakes(validators[0], 0);
    assert.deepEqual([phase, BigInt(votePrice)], ['open', parseEther(String(VOTE))]);
    assert.deepEqual(listed.map(({ bonded }) => BigInt(bonded)), Array(4).fill(parseEther(String(VOTE))));
    assert.equal(await validators[0].client.getBalance({ address }), parseEther(String(4 * VOTE)));
  });

  await step('three accounts register validators at the same time, through different nodes', async () => {
    const keys = mkdtempSync(join(network.directory, 'owners-'));
    const ids = await Promise.all(owners.map(async (index) => {
      const [directory, secret] = [join(keys, `keys-${index}`), join(keys, `key-${index}`)];
      writeFileSync(secret, network.keys[index], { mode: 0o600 });
      await run(corniche, ['keys', 'new', '--out', directory]);
      const flags = ['--keys', directory, '--stake', String(VOTE + index), '--key-file', secret, '--rpc', nodes[index].rpc];
      return Number((await run(corniche, ['validator', 'register', ...flags])).stdout);
    }));
    assert.deepEqual(ids.toSorted(), [4, 5, 6]);
    owners.forEach((index) => (accounts[index].validator = ids[index]));
    const blockNumber = await validators[0].client.getBlockNumber();
    const block = await validators[0].client.getBlock({ blockNumber });
    const { validators: listed } = await stakeEverywhere({ blockNumber, blockHash: block.hash });
    for (const index of owners) {
      const entry = listed.find(({ id }) => Number(id) === ids[index]);
      assert.equal(entry.owner.toLowerCase(), accounts[index].address.toLowerCase());
      assert.equal(BigInt(entry.bonded), parseEther(String(VOTE + index)));
    }
  });

  await step('stake moves in parallel, and its sum is the balance', async () => {
    const receipts = await Promise.all(owners.map(async (index) => {
      const added = await send(nodes[index + 1], index, 'add', [accounts[index].validator], parseEther('3'));
      assert.deepEqual([added.status, added.logs.length], ['success', 1]);
      return send(nodes[index + 1], index, 'unbond', [accounts[index].validator, parseEther('2')]);
    }));
    for (const { status } of receipts) assert.equal(status, 'success');
    const last = receipts.reduce((one, other) => (one.blockNumber > other.blockNumber ? one : other));
    const { validators: listed } = await stakeEverywhere(last);
    const sum = listed.reduce((sum, { bonded, queued }) => sum + BigInt(bonded) + BigInt(queued), 0n);
    assert.equal(await validators[0].client.getBalance({ address, blockNumber: last.blockNumber }), sum);
    assert.equal(sum, parseEther(String(7 * VOTE + 3 + 9)));
  });

  await step('refused calls say why, and return their value', async () => {
    const [node] = validators;
    const refused = { address, abi, account: accounts[0], functionName: 'add', args: [accounts[1].validator], value: parseEther('5') };
    await assert.rejects(node.client.simulateContract(refused), /NotOwner/);
    await assert.rejects(node.client.simulateContract({ ...refused, functionName: 'withdraw', args: [accounts[0].validator], value: 0n }), /NothingFree/);
    const before = await node.client.getBalance({ address });
    assert.equal((await send(node, 0, 'add', [accounts[1].validator], parseEther('5'))).status, 'reverted');
    assert.equal(await node.client.getBalance({ address }), before);
  });

  await step('a node that lost its disk executes the same', async () => {
    fullNode.kill();
    await fullNode.gone();
    fullNode.loseDisk();
    await fullNode.restart();
    await stakeEverywhere(await send(validators[2], 2, 'add', [accounts[2].validator], 1n));
  });
});
