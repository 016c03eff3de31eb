// Programs that the types reject: one mistake in each marked line, and no other. The test expects exactly these errors.

import type { Methods, Receipt, Transaction } from '../viem/src/rpc.ts';

declare function call<M extends keyof Methods>(method: M, ...params: Methods[M]['parameters']): Promise<Methods[M]['result']>;

await call('eth_getBalance', '0x12', 'latest');
await call('eth_getBalance'); // wrong: an account is needed
await call('eth_getBalance', '0x12', 'newest'); // wrong: there is no such block
await call('eth_getBalance', '12'); // wrong: not in hexadecimal digits
await call('eth_noSuchMethod'); // wrong: there is no such method
await call('eth_chainId', '0x1'); // wrong: it takes nothing
const id: number = await call('eth_chainId'); // wrong: it is text
const receipt: Receipt = await call('eth_getTransactionReceipt', '0x12'); // wrong: there may be none
const status: '0x2' = receipt.status; // wrong: 0 or 1
const from = (await call('eth_getTransactionByHash', '0x12'))?.sender; // wrong: it is called from
await call('debug_traceTransaction', '0x12', { tracer: 'opcodeTracer' }); // wrong: not one of ours
const partial: Transaction = { hash: '0x12' }; // wrong: much is missing
