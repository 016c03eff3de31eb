// Fills a network with transfers, a token and a reverted call.

import { concatHex, encodeAbiParameters, encodeDeployData, encodeEventTopics, encodeFunctionData, parseAbi } from 'viem';
import wabt from 'wabt';
import { abi, bytecode, packed } from '../../../testnet/js/contracts.js';

/** Sends transactions to a network and returns what they created. */
export async function fill(network) {
  const [node] = network.nodes;
  const [owner, friend, stranger] = network.accounts;
  const wallet = node.wallet(owner);
  const done = async (hash) => ({ hash, receipt: await node.receipt(hash) });
  const transfer = await done(await wallet.sendTransaction({ to: friend.address, value: 1_500_000_000_000_000_000n }));
  const data = encodeDeployData({ abi: abi('token'), bytecode: bytecode('token'), args: ['Gold', 'GLD', 1_000_000n] });
  const creation = await done(await wallet.sendTransaction({ data }));
  const token = creation.receipt.contractAddress;
  const call = (functionName, args) => encodeFunctionData({ abi: abi('token'), functionName, args });
  const moved = await done(await wallet.sendTransaction({ to: token, data: call('transfer', [friend.address, 1_000n]) }));
  const approved = await done(await wallet.sendTransaction({ to: token, data: call('approve', [stranger.address, 2n ** 256n - 1n]) }));
  // More than the balance. The gas limit keeps the library from estimating gas, which would fail.
  const refused = await done(
    await node.wallet(stranger).sendTransaction({ to: token, data: call('transfer', [owner.address, 5n]), gas: 500_000n }),
  );
  return { owner, friend, stranger, token, transfer, creation, moved, approved, refused };
}

/** Creates tokens with ids: cards of a contract of this repository (ERC-721), and items that exist only in events (ERC-1155). */
export async function fillIds(network) {
  const [node] = network.nodes;
  const [owner, friend] = network.accounts;
  const wallet = node.wallet(owner);
  const deployed = async (data) => (await node.receipt(await wallet.sendTransaction({ data }))).contractAddress;
  const sent = async (to, data) => node.receipt(await wallet.sendTransaction({ to, data, gas: 2_000_000n }));

  const cards = await deployed(encodeDeployData({ abi: abi('collectible'), bytecode: bytecode('collectible'), args: ['Cards', 'CRD', 'cards/'] }));
  const card = (functionName, args) => sent(cards, encodeFunctionData({ abi: abi('collectible'), functionName, args }));
  for (let count = 0; count < 2; count += 1) await card('mint', [owner.address]);
  const given = await card('transferFrom', [owner.address, friend.address, 0n]);

  const items = await deployed(packed(await echo()));
  const events = parseAbi([
    'event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)',
    'event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)',
  ]);
  const item = (eventName, from, to, types, values) => {
    const topics = encodeEventTopics({ abi: events, eventName, args: { operator: owner.address, from, to } });
    return sent(items, concatHex(['0x04', ...topics, encodeAbiParameters(types.map((type) => ({ type })), values)]));
  };
  const nobody = `0x${'00'.repeat(20)}`;
  await item('TransferBatch', nobody, owner.address, ['uint256[]', 'uint256[]'], [[7n, 8n], [70n, 80n]]);
  const shared = await item('TransferSingle', owner.address, friend.address, ['uint256', 'uint256'], [7n, 30n]);
  return { cards, given, items, shared };
}

/** Returns a module that emits its calldata as a log: the number of topics in a byte, the topics, the data. */
async function echo() {
  const { parseWat } = await wabt();
  const parsed = parseWat('echo.wat', `(module
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "emit_log" (func $emit_log (param i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "user_entrypoint") (param $length i32) (result i32)
      (if (i32.gt_u (local.get $length) (i32.const 65536)) (then (unreachable)))
      (call $read_args (i32.const 0))
      (call $emit_log (i32.const 1) (i32.sub (local.get $length) (i32.const 1)) (i32.load8_u (i32.const 0)))
      (i32.const 0)))`);
  const { buffer } = parsed.toBinary({});
  parsed.destroy();
  return buffer;
}
