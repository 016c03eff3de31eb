import { numberToHex, type Account, type Chain, type Client, type EIP1193RequestFn, type Hash, type Transport } from 'viem';
import type { BlockId, Methods } from '../rpc.ts';
import type { CornicheRpcSchema } from '../schema.ts';

/** Any client of viem's. */
export type AnyClient = Client<Transport, Chain | undefined, Account | undefined>;

/** A block: the newest executed one unless it says another. */
export type BlockParameter =
  | { blockNumber?: bigint; blockHash?: never; blockTag?: never }
  | { blockHash: Hash; blockNumber?: never; blockTag?: never }
  | { blockTag: 'latest' | 'safe' | 'finalized' | 'earliest' | 'pending'; blockHash?: never; blockNumber?: never };

export const blockId = ({ blockNumber, blockHash, blockTag }: BlockParameter): BlockId =>
  blockHash ?? (blockNumber === undefined ? (blockTag ?? 'latest') : numberToHex(blockNumber));

/** A `corniche_` method by the transport of the client. */
export function ask<M extends CornicheRpcSchema[number]['Method']>(
  client: AnyClient,
  method: M,
  ...params: Methods[M]['parameters']
): Promise<Methods[M]['result']> {
  const request = client.request as EIP1193RequestFn<CornicheRpcSchema>;
  return request({ method, params } as Parameters<typeof request>[0]) as Promise<Methods[M]['result']>;
}
