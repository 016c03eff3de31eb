import { numberToHex, type Account, type Chain, type Client, type EIP1193RequestFn, type Hash, type Transport } from 'viem';
import type { BlockId, Methods } from '../rpc.ts';
import type { CornicheRpcSchema } from '../schema.ts';

/** Any viem client. */
export type AnyClient = Client<Transport, Chain | undefined, Account | undefined>;

/** A block; by default the newest executed one. */
export type BlockParameter =
  | { blockNumber?: bigint; blockHash?: never; blockTag?: never }
  | { blockHash: Hash; blockNumber?: never; blockTag?: never }
  | { blockTag: 'latest' | 'safe' | 'finalized' | 'earliest' | 'pending'; blockHash?: never; blockNumber?: never };

export const blockId = ({ blockNumber, blockHash, blockTag }: BlockParameter): BlockId =>
  blockHash ?? (blockNumber === undefined ? (blockTag ?? 'latest') : numberToHex(blockNumber));

/** Calls a `corniche_` method over the client's transport. */
export function ask<M extends CornicheRpcSchema[number]['Method']>(
  client: AnyClient,
  method: M,
  ...params: Methods[M]['parameters']
): Promise<Methods[M]['result']> {
  const request = client.request as EIP1193RequestFn<CornicheRpcSchema>;
  return request({ method, params } as Parameters<typeof request>[0]) as Promise<Methods[M]['result']>;
}
