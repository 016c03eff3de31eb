// The package @corniche/viem as users get it: its files, the correctness of its types, every program of its README
// (compiled and run), and every action against a node.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createPublicClient, http, keccak256 } from 'viem';
import { packed as packedModule, wasm } from '../../../testnet/js/contracts.js';
import { corniche, withNetwork } from '../../../testnet/js/network.js';
import { until } from '../../../testnet/js/until.js';
import { SOURCES, carrying, compile, node as run, programs, project } from '../lib/package.js';
import { supply, token } from '../lib/tour.js';

const load = ({ installed }) => import(pathToFileURL(join(installed, 'dist/index.js')));

test('the package and what its README says', { timeout: 120_000 }, async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'corniche-readme-'));
  t.after(() => rmSync(data, { recursive: true }));
  const { network, step } = await withNetwork(t, { dev: true, flags: ['--data', data] });
  const [node] = network.nodes;
  const { folder, packed } = await project(t);

  await step('holds what a user needs and nothing else', () => {
    const paths = packed.files.map(({ path }) => path);
    const expected = /^(dist\/.*\.(js|d\.ts)(\.map)?|src\/.*\.ts|verifier\.wasm|package\.json|README\.md|LICENSE-(MIT|APACHE))$/;
    assert.deepEqual(paths.filter((path) => !expected.test(path)), []);
    for (const needed of ['dist/index.js', 'dist/index.d.ts', 'dist/verifier.js', 'verifier.wasm', 'README.md', 'LICENSE-MIT']) assert.ok(paths.includes(needed), needed);
    console.log(`${packed.filename}: ${packed.size} bytes, ${packed.unpackedSize} unpacked`);
  });

  await step('its types say what is true', async () => {
    const program = `
      import { createPublicClient, http, rpcSchema, type Hash } from 'viem';
      import { cornicheActions, defineCorniche, getHeads, type Certificate, type RpcSchema, type TransactionStatus } from '@corniche/viem';
      const chain = defineCorniche({ id: 7, rpc: ['http://127.0.0.1:8545'] });
      const client = createPublicClient({ chain, transport: http() }).extend(cornicheActions());
      export const number = async (): Promise<bigint> => (await client.getHeads()).certified.number + (await getHeads(client)).executed.number;
      export const certificate = (hash: Hash): Promise<Certificate> => client.waitForCertificate({ hash });
      export const why = (status: TransactionStatus): string | undefined => (status.status === 'dropped' ? status.reason : undefined);
      export const plain = createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), transport: http('') });
      export const keys = async (): Promise<string[]> =>
        (await plain.request({ method: 'corniche_getValidators', params: [] })).validators.map(({ blsKey }) => blsKey);
      // @ts-expect-error a transaction or a block, not both
      export const both = (hash: Hash) => client.waitForCertificate({ hash, blockNumber: 1n });
      // @ts-expect-error a block by one of its names
      export const two = (blockHash: Hash) => client.getOrdering({ blockHash, blockNumber: 1n });
      // @ts-expect-error only what was dropped has a reason
      export const reason = (status: TransactionStatus) => status.reason;
      // @ts-expect-error the id is needed
      export const nameless = defineCorniche({ rpc: 'http://127.0.0.1:8545' });`;
    writeFileSync(join(folder, 'types.ts'), program);
    assert.equal(await compile(folder, ['types.ts']), '');
  });

  // Prerequisites of the programs: the genesis, a token with an ABI in its code as the first contract of the first
  // account, and the output of the README's commands.
  copyFileSync(join(data, 'genesis.json'), join(folder, 'genesis.json'));
  const bytecode = packedModule(carrying(wasm('erc20'), JSON.stringify(token.abi)));
  await node.receipt(await node.wallet(network.accounts[0]).deployContract({ abi: token.abi, bytecode, args: ['Cornice', 'CRN', supply] }));
  const commands = readFileSync(join(SOURCES, 'README.md'), 'utf8').matchAll(/^corniche (.*) > (\S+)$/gm);
  for (const [, words, file] of commands) {
    const { stdout } = await promisify(execFile)(corniche, words.split(' '), { env: { ...process.env, CORNICHE_RPC: node.rpc } });
    writeFileSync(join(folder, file), stdout);
  }

  const shown = programs(join(SOURCES, 'README.md'));
  assert.ok(shown.length >= 5);
  for (const [index, { heading, program }] of shown.entries()) {
    await step(`the program under “${heading}”`, async () => {
      const own = program.replaceAll('http://127.0.0.1:8545', node.rpc);
      assert.notEqual(own, program, 'it asks a node');
      // The program needs no other global than the console.
      writeFileSync(join(folder, `program-${index}.ts`), own);
      assert.equal(await compile(folder, ['node.d.ts', `program-${index}.ts`]), '');
      assert.match(await run(folder, `program-${index}.js`), expected[heading].shift());
    });
  }
});

/** Expected output of the README's programs. */
const expected = {
  'A chain': [/^chain \d+: block \d+, of which \d+ are final\nvalidators with 1 of 1 votes sign\n$/],
  'Waiting until something is final': [/^final by block \d+, signed by the validators 0\ncertified \d+n\n$/],
  'Believing nothing': [/^10001 CRN in block \d+\n$/],
  Contracts: [/^transfer nonpayable$/m, /^true\n$/],
};

test('every action, on four validators', { timeout: 120_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { validators: 4 });
  const [node] = network.nodes;
  const [sender, friend] = network.accounts;
  const own = await load(await project(t));
  const chain = await own.cornicheAt(node.rpc, { name: 'Under test' });
  const client = createPublicClient({ chain, transport: http(), pollingInterval: 20, cacheTime: 0 }).extend(own.cornicheActions());
  const wallet = node.wallet(sender);
  const send = (more) => wallet.sendTransaction({ to: friend.address, value: 1n, ...more });
  let certificate;

  await step('the chain is what the node says, and knows the Multicall3', async () => {
    assert.deepEqual([chain.id, chain.name, chain.nativeCurrency.symbol], [network.chain.id, 'Under test', 'CRN']);
    assert.deepEqual([chain.rpcUrls.default.http, chain.rpcUrls.default.webSocket], [[node.rpc], [node.rpc.replace('http', 'ws')]]);
    const gathering = createPublicClient({ chain, transport: http(), batch: { multicall: true } });
    const abi = [{ type: 'function', name: 'getChainId', stateMutability: 'view', inputs: [], outputs: [{ type: 'uint256' }] }];
    const calls = [{ address: own.MULTICALL3, abi, functionName: 'getChainId' }];
    assert.deepEqual(await gathering.multicall({ contracts: calls, allowFailure: false }), [BigInt(chain.id)]);
    assert.deepEqual(own.cornicheOf({ chain_id: 5, currency: 'T' }, { rpc: 'https://a' }).nativeCurrency.symbol, 'T');
    assert.throws(() => own.cornicheOf({ chain_id: 2 ** 60, currency: 'T' }, { rpc: 'https://a' }), RangeError);
  });

  await step('a certificate is waited for, of a transaction and of a block', async () => {
    const hash = await send();
    certificate = await client.waitForCertificate({ hash });
    const { blockNumber, blockHash } = await client.getTransactionReceipt({ hash });
    assert.ok(certificate.blockNumber >= blockNumber);
    assert.equal(certificate.faultModel, 'byzantine');
    assert.ok(certificate.signers.length >= 3 && certificate.signers.every((signer) => signer < 4));
    const same = await client.waitForCertificate({ blockHash });
    assert.ok(same.blockNumber >= blockNumber);
    assert.equal(same.committeeHash, certificate.committeeHash);
    assert.ok((await client.waitForCertificate({ blockNumber })).blockNumber >= blockNumber);
    assert.ok((await client.getCertificate({ blockNumber })).blockNumber >= blockNumber);
  });

  await step('heads', async () => {
    const { executed, certified } = await client.getHeads();
    assert.ok(executed.number >= certified.number && certified.number >= certificate.blockNumber);
    const block = await client.getBlock({ blockNumber: certified.number });
    assert.equal(block.hash, certified.hash);
    assert.equal(certified.timestampMs / 1000n, block.timestamp);
  });

  await step('validators', async () => {
    const { validators, quorum, engine, faultModel, epoch, committeeHash } = await client.getValidators();
    assert.deepEqual([validators.length, quorum, engine, faultModel, epoch, committeeHash], [4, 3, 'mahi-mahi', 'byzantine', 0n, certificate.committeeHash]);
    assert.deepEqual(validators.map(({ index }) => index), [0, 1, 2, 3]);
    assert.ok(validators.every(({ blsKey }) => blsKey.length === 2 + 192));
    assert.equal(await client.getStaking(), null, 'the genesis has no staking');
  });

  await step('whom the node is connected with', async () => {
    const { validators } = await client.getValidators();
    // The node measures the round trip by its own ping once the links are up.
    const { own, peers } = await until('the peers of the node to be measured', async () => {
      const told = await client.getPeers();
      return told.peers.length === 3 && told.peers.every(({ roundTripUs, version }) => roundTripUs > 0 && version) && told;
    });
    assert.match(own.version, /^corniche\/\d/);
    assert.deepEqual([own, ...peers].map(({ validator }) => validator).sort(), [0, 1, 2, 3]);
    for (const { validator, networkKey, feeAddress, peerId, version } of [own, ...peers]) {
      assert.deepEqual([networkKey, feeAddress, version], [validators[validator].networkKey, validators[validator].feeAddress, own.version]);
      assert.match(peerId, /^12D3Koo/);
    }
    assert.deepEqual([own.connectedMs, own.roundTripUs], [undefined, undefined]);
    assert.ok(peers.every(({ connectedMs }) => Math.abs(Number(connectedMs) - Date.now()) < 600_000));
  });

  await step('how a block was ordered', async () => {
    const { blockNumber } = certificate;
    const ordering = await client.getOrdering({ blockNumber });
    const { extraData, timestamp } = await client.getBlock({ blockNumber });
    assert.equal(keccak256(ordering.encoded), extraData);
    assert.equal(ordering.timestampMs / 1000n, timestamp);
    assert.equal(ordering.encoded.slice(-64), keccak256(ordering.encodedTail).slice(2));
    assert.equal(ordering.protocolVersion, 5);
    assert.ok(ordering.leader < 4 && ordering.firstCommit <= ordering.lastCommit);
    assert.equal(await client.getOrdering({ blockTag: 'earliest' }), null);
    assert.equal(await client.getOrdering({ blockNumber: 1_000_000n }), null);
  });

  await step('what the ordering did, and the execution', async () => {
    const dag = await client.getDag({ latest: 5 });
    assert.ok(dag.vertices.length > 0 && dag.toRound <= dag.newestRound);
    assert.ok(dag.vertices.every(({ author, round }) => author < 4 && round >= dag.fromRound && round <= dag.toRound));
    const { vertices } = await client.getDag({ fromRound: dag.toRound, toRound: dag.toRound });
    assert.ok(vertices.every(({ round }) => round === dag.toRound));
    const { executed, refused } = await client.getStatistics();
    assert.ok(executed >= 1n && refused === 0n);
    const execution = await client.getExecution({ blockNumber: certificate.blockNumber });
    const { transactions } = await client.getBlock({ blockNumber: certificate.blockNumber });
    for (const each of [execution.laneOf, execution.runsOf, execution.receivedMs]) assert.equal(each.length, transactions.length);
    assert.ok(execution.receivedMs.every((ms) => ms === null || Math.abs(Number(ms) - Date.now()) < 600_000), `${execution.receivedMs}`);
    assert.ok(execution.laneOf.every((lane) => lane < execution.threads) && execution.durationUs > 0);
    assert.equal(await client.getExecution({ blockTag: 'earliest' }), null);
  });

  await step('where a transaction stands, and how it leaves', async () => {
    const nonce = await client.getTransactionCount({ address: sender.address, blockTag: 'pending' });
    assert.equal(await client.getTransactionStatus({ hash: keccak256('0x') }), null);
    // After a nonce gap it is pending.
    const fees = await client.estimateFeesPerGas();
    const waiting = await send({ nonce: nonce + 1, gas: 21_000n, ...fees });
    const { status, receivedMs } = await client.getTransactionStatus({ hash: waiting });
    assert.equal(status, 'pending');
    assert.ok(Math.abs(Number(receivedMs) - Date.now()) < 60_000);
    await assert.rejects(client.waitForCertificate({ hash: waiting, timeout: 50 }), { name: 'CertificateTimeoutError', waited: 50 });
    await assert.rejects(client.waitForCertificate({ hash: waiting, signal: AbortSignal.abort(new Error('enough')) }), /enough/);
    const later = new AbortController();
    const stopped = client.waitForCertificate({ hash: waiting, pollingInterval: 60_000, timeout: 120_000, signal: later.signal });
    setImmediate(() => later.abort(new Error('enough of it')));
    await assert.rejects(stopped, /enough of it/);
    const by = await send({
      nonce: nonce + 1, gas: 21_000n, maxFeePerGas: fees.maxFeePerGas * 2n, maxPriorityFeePerGas: fees.maxPriorityFeePerGas * 2n,
    });
    await assert.rejects(client.waitForCertificate({ hash: waiting }), { name: 'TransactionReplacedError', by });
    const both = [await send({ nonce }), by];
    for (const hash of both) assert.ok((await client.waitForCertificate({ hash })).blockNumber > 0n);
    const done = await client.getTransactionStatus({ hash: by });
    assert.equal(done.status, 'certified');
    assert.equal((await client.getBlock({ blockHash: done.blockHash })).number, done.blockNumber);
    assert.ok(Math.abs(Number(done.orderedMs) - Date.now()) < 60_000);
  });

  await step('the places of those who signed', () => {
    assert.deepEqual(own.signersOf('0x0d'), [0, 2, 3]);
    assert.deepEqual(own.signersOf('0x0081'), [8, 15]);
    assert.deepEqual(own.signersOf('0x'), []);
  });
});
