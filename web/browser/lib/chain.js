// A network with something to see on it: transfers, a token, a call that reverts.

import { encodeDeployData, encodeFunctionData } from 'viem';
import { abi, bytecode } from '../../../testnet/e2e/lib/contracts.js';

/** Fills a network's chain and names what it made. */
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
  // More than there is; a gas limit keeps the library from asking first whether it works.
  const refused = await done(
    await node.wallet(stranger).sendTransaction({ to: token, data: call('transfer', [owner.address, 5n]), gas: 500_000n }),
  );
  return { owner, friend, stranger, token, transfer, creation, moved, approved, refused };
}
