// A chain of the first protocol version activates a later one at a height, while its validators restart. Requirements:
// the chain makes progress, old code still runs, and a validator that missed the upgrade stops with a reason and can rejoin.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseEther } from 'viem';
import { abi, bytecode } from '../../js/contracts.js';
import { corniche, withNetwork, underEveryEngine } from '../../js/network.js';
import { until } from '../../js/until.js';

const run = promisify(execFile);

const token = abi('erc20');
/** The version that is activated: the newest. */
const LATER = 5;

underEveryEngine('an upgrade of the rules', { timeout: 600_000 }, async (t, engine) => {
  const { network, step } = await withNetwork(t, { validators: 4, engine });
  const { validators } = network;
  const [first, second, third, late] = validators;
  const [owner, friend] = network.accounts;
  const upgraded = validators.filter((node) => node !== late);
  let address, activation;

  const restart = async (node) => {
    node.kill();
    await node.gone();
    await node.restart();
  };
  const genesisFile = join(network.directory, 'genesis.json');
  const writeGenesis = (path, changes) => {
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(genesisFile, 'utf8')), ...changes }));
  };
  const upgradedFile = join(network.directory, 'genesis-upgraded.json');
  /** Gives the node the genesis file with the upgrade, for its next start. */
  const upgrade = (node) => {
    const text = readFileSync(node.config, 'utf8').replace(/^genesis = .*$/m, `genesis = "${upgradedFile}"`);
    writeFileSync(node.config, text);
  };
  /** Sends one transfer of the token, and checks that these nodes have its block. */
  const transfer = async (nodes) => {
    const hash = await first.wallet(owner).writeContract({ address, abi: token, functionName: 'transfer', args: [friend.address, 1n] });
    const receipt = await first.receipt(hash);
    assert.equal(receipt.status, 'success');
    const blocks = await Promise.all(nodes.map((node) => node.block(receipt.blockNumber)));
    for (const { hash: blockHash } of blocks) assert.equal(blockHash, receipt.blockHash);
    return receipt.blockNumber;
  };
  const certified = (nodes, number) =>
    Promise.all(
      nodes.map((node) =>
        until(`${node.name} to have block ${number} certified`, async () => {
          const { result } = await node.call('corniche_getHeads');
          return BigInt(result.certified.number) >= number;
        }),
      ),
    );
  const version = async (node, number) => {
    const { result } = await node.call('corniche_getOrdering', `0x${number.toString(16)}`);
    return Number(result.protocolVersion);
  };

  await step('a chain under version 1', async () => {
    for (const node of validators) node.kill();
    await Promise.all(validators.map((node) => node.gone()));
    for (const node of validators) node.loseDisk();
    writeGenesis(genesisFile, { protocol_version: 1 });
    await Promise.all(validators.map((node) => node.restart()));
    const hash = await first.wallet(owner).deployContract({ abi: token, bytecode: bytecode('erc20'), args: ['Cornice', 'CRN', parseEther('1')] });
    ({ contractAddress: address } = await first.receipt(hash));
    assert.equal(await version(first, await transfer(validators)), 1);
  });

  await step('three validators are upgraded', async () => {
    activation = (await first.client.getBlockNumber()) + 8n;
    writeGenesis(upgradedFile, { upgrades: [{ height: Number(activation), protocol_version: LATER }] });
    for (const node of upgraded) {
      upgrade(node);
      await restart(node);
      await transfer([first, node]);
    }
  });

  await step('upgraded validators cross the activation', async () => {
    let height = await transfer(upgraded);
    while (height < activation - 1n) height = await transfer(upgraded);
    await restart(second);
    while (height < activation) height = await transfer([first]);
    await restart(third);
    while (height < activation + 2n) height = await transfer(upgraded);
    await certified(upgraded, height);
    for (const node of upgraded) {
      assert.equal(await version(node, activation - 1n), 1);
      assert.equal(await version(node, activation), LATER);
    }
  });

  await step('the validator without the upgrade stops with advice', async () => {
    await late.gone();
    upgrade(late);
    const refused = run(corniche, ['node', '--config', late.config, '--data', late.dataDir]);
    await assert.rejects(refused, ({ stderr }) =>
      stderr.includes(`was built under protocol version 1, the genesis file says ${LATER}`),
    );
    for (const name of ['blocks', 'state', 'VERSION']) rmSync(join(late.dataDir, name), { recursive: true, force: true });
    await late.restart();
    const height = await transfer(validators);
    await certified(validators, height);
    assert.equal(await version(late, activation), LATER);
  });

  await step('the upgraded validator votes again', async () => {
    second.kill();
    await second.gone();
    const height = await transfer(validators.filter((node) => node !== second));
    await certified([first, third, late], height);
  });
});
