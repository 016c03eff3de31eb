// The ABI in a contract's code: the package finds it in deployed code, and hostile content causes no harm.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { bytesToHex, concatHex, createPublicClient, getContract, http, zeroAddress } from 'viem';
import { abi, packed, wasm } from '../../../testnet/js/contracts.js';
import { withNetwork } from '../../../testnet/js/network.js';
import { carrying, plain, project } from '../lib/package.js';
import { supply, token } from '../lib/tour.js';

const EMPTY = Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const compressed = (module) => concatHex(['0xeff00000', bytesToHex(brotliCompressSync(module))]);

test('the ABI in a contract', { timeout: 120_000 }, async (t) => {
  const { network, step } = await withNetwork(t, { dev: true });
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const { installed } = await project(t);
  const { InterfaceError, LONGEST_ABI, contractAbi, cornicheActions, readAbi } = await import(pathToFileURL(join(installed, 'dist/index.js')));
  const client = createPublicClient({ chain: network.chain, transport: http(node.rpc), cacheTime: 0 }).extend(cornicheActions());
  const wallet = node.wallet(owner);
  const module = carrying(wasm('erc20'), JSON.stringify(token.abi));

  await step('a contract is used with nothing but its address', async () => {
    const hash = await wallet.deployContract({ abi: token.abi, bytecode: packed(module), args: ['Cornice', 'CRN', supply] });
    const { contractAddress: address, status } = await node.receipt(hash);
    assert.equal(status, 'success');
    const abi = await client.contractAbi({ address });
    assert.deepEqual(new Set(abi.map(({ type, name }) => `${type} ${name}`)), new Set(token.abi.map(({ type, name }) => `${type} ${name}`)));
    const contract = getContract({ address, abi, client: { public: client, wallet } });
    assert.equal(await contract.read.name(), 'Cornice');
    assert.equal((await node.receipt(await contract.write.transfer([friend.address, 5n]))).status, 'success');
    const [event] = await contract.getEvents.Transfer({ to: friend.address }, { fromBlock: 0n });
    assert.equal(event.args.value, 5n);
  });

  await step('also where the module was not compressed, and where there is nothing to find', async () => {
    const deploy = async (data) => (await node.receipt(await wallet.sendTransaction({ data }))).contractAddress;
    const raw = await client.contractAbi({ address: await deploy(bytesToHex(carrying(wasm('counter'), '[]'))) });
    assert.deepEqual(raw, []);
    for (const silent of [plain(wasm('counter')), carrying(wasm('counter'), '[]', 'name.of.another')]) {
      assert.equal(await client.contractAbi({ address: await deploy(bytesToHex(silent)) }), null);
    }
    // Built like the contracts of this repository.
    const counter = await client.contractAbi({ address: await deploy(bytesToHex(wasm('counter'))) });
    assert.deepEqual(counter.map(({ name }) => name), abi('counter').map(({ name }) => name));
    assert.equal(await client.contractAbi({ address: zeroAddress }), null);
    assert.equal(await client.contractAbi({ address: owner.address }), null);
  });

  /** Returns the ABI in this code, which may be invalid. */
  const found = (code) => contractAbi({ ...client, request: async () => code }, { address: zeroAddress });

  await step('code that is not what it should be', async () => {
    const abi = carrying(EMPTY, '[]');
    assert.deepEqual(await found(bytesToHex(abi)), []);
    assert.deepEqual(await found(compressed(abi)), []);
    for (const code of ['0x00', '0xef', '0xeff000', '0xeff00001', '0x6080604052', bytesToHex(abi.slice(0, -1)), bytesToHex(EMPTY.slice(0, 6))]) {
      assert.equal(await found(code), null, code);
    }
    const section = bytesToHex(abi);
    for (const lie of [section.replace('0f0c', 'ffffffff0f0c'), section.replace('0f0c', '7f0c'), section.replace('0f0c', '0fff')]) {
      assert.notEqual(lie, section);
      assert.equal(await found(lie), null, lie);
    }
    const damaged = compressed(abi);
    for (let length = 10; length < damaged.length; length += 2) await assert.rejects(found(damaged.slice(0, length)), InterfaceError);
    // A few hundred bytes that decompress to 64 MiB.
    await assert.rejects(found(compressed(new Uint8Array(64 << 20))), /unpacks to more than/);
    await assert.rejects(found(`0x${'00'.repeat((1 << 20) + 1)}`), InterfaceError);
    await assert.rejects(found(bytesToHex(carrying(EMPTY, [0x5b, 0xff, 0xfe, 0x5d]))), /not UTF-8/);
  });

  await step('an interface that is none', () => {
    const deep = (levels) => (levels === 0 ? { type: 'uint256' } : { type: 'tuple', components: [deep(levels - 1)] });
    const taking = (input) => [{ type: 'function', name: 'f', inputs: [input] }];
    for (const value of [
      null, 7, 'text', {}, { length: 1, 0: {} }, [null], [[]], ['f'], [{}], [{ type: 'funktion' }],
      [{ type: 'function' }], [{ type: 'function', name: '' }], [{ type: 'function', name: '<b>' }], [{ type: 'function', name: 'f()' }],
      [{ type: 'function', name: 'f', inputs: {} }], [{ type: 'function', name: 'f', outputs: 'uint256' }], [{ type: 'function', name: 'f', stateMutability: 'free' }],
      [{ type: 'event', name: 'e', anonymous: 1 }], [{ type: 'error', name: 'e', inputs: [7] }],
      taking({}), taking({ type: 7 }), taking({ type: '' }), taking({ type: 'uint256[' }), taking({ type: 'uint256', name: 'a b' }), taking({ type: 'tuple' }), taking(deep(18)),
    ]) {
      assert.throws(() => readAbi(JSON.stringify(value)), InterfaceError, JSON.stringify(value));
    }
    for (const broken of ['', '[', '[]]', 'undefined', '['.repeat(200_000)]) assert.throws(() => readAbi(broken), InterfaceError);
    assert.throws(() => readAbi(`[]${' '.repeat(LONGEST_ABI)}`), /at most/);
    assert.doesNotThrow(() => readAbi(JSON.stringify(taking(deep(16)))));
    // Unknown fields of an item are dropped, and so are those that would change its prototype.
    const [item] = readAbi('[{"type":"error","name":"E","inputs":[],"__proto__":{"polluted":1},"constructor":7,"more":[]}]');
    assert.deepEqual(item, { type: 'error', name: 'E', inputs: [] });
    assert.equal({}.polluted ?? item.polluted, undefined);
  });
});
