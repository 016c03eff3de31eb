// A program that uses the types, with its own function and with viem. The test compiles and runs it.

import { createPublicClient, http, rpcSchema } from 'viem';
import type { Block, CallFrame, Method, Methods, Receipt, RpcSchema, Transaction } from '../viem/src/rpc.ts';

async function call<M extends Method>(url: string, method: M, ...params: Methods[M]['parameters']): Promise<Methods[M]['result']> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const { result, error } = await response.json();
  if (error) throw new Error(error.message);
  return result;
}

export async function sample(url: string): Promise<string[]> {
  const chainId: `0x${string}` = await call(url, 'eth_chainId');
  const block: Block | null = await call(url, 'eth_getBlockByNumber', 'latest', false);
  const receipts: Receipt[] = (await call(url, 'eth_getBlockReceipts', { blockNumber: 'latest' })) ?? [];
  const gas: string[] = receipts.map(({ gasUsed }) => gasUsed);
  const pending: Transaction | null = await call(url, 'eth_getTransactionByHash', `0x${'12'.repeat(32)}`);
  const { executed, certified } = await call(url, 'corniche_getHeads');
  const trace = await call(url, 'debug_traceCall', { to: '0xcA11bde05977b3631167028862bE2a173976CA11' }, 'latest', { tracer: 'callTracer' });
  const failure: string | undefined = (trace as CallFrame).error;

  const client = createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), transport: http(url) });
  const { validators, quorum } = await client.request({ method: 'corniche_getValidators', params: [] });
  const keys: string[] = validators.map(({ blsKey }) => blsKey);
  return [chainId, block?.number ?? '0x0', pending?.hash ?? 'none', executed.hash, certified.hash, failure ?? 'none', quorum, ...keys, ...gas];
}
