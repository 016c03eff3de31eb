import { createClient, defineChain, http, type Chain, type HttpTransportConfig } from 'viem';
import { getChainId } from 'viem/actions';

/** Address of the Multicall3 of every chain, which the node implements itself. */
export const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11';

/** Block time that viem assumes, in milliseconds. Transactions do not wait that long, because a transaction triggers a block. */
const BLOCK_TIME = 1_000;

export interface CornicheParameters {
  /** Chain id. Get it from a node with `cornicheAt`, or from a genesis with `cornicheOf`. */
  id: number;
  /** HTTP URLs of nodes. */
  rpc: string | readonly string[];
  /** WebSocket URLs of nodes. By default those of `rpc` with `ws` in place of `http`, because a node serves both on one port. */
  webSocket?: string | readonly string[];
  /** Name of the network in wallets; `Corniche` by default. */
  name?: string;
  /** Symbol of the currency; `CRN` by default. */
  currency?: string;
  /** URL of an explorer. */
  explorer?: string;
  /** `true` if wallets should mark its currency as worthless. */
  testnet?: boolean;
}

/** A chain in viem's format. */
export type CornicheChain = Chain & { contracts: { multicall3: { address: typeof MULTICALL3 } } };

/**
 * Defines a Corniche chain for viem's clients.
 *
 * @example
 * const chain = defineCorniche({ id: 1337, rpc: 'http://127.0.0.1:8545' });
 * const client = createPublicClient({ chain, transport: http() }).extend(cornicheActions());
 */
export function defineCorniche({ id, rpc, webSocket, name = 'Corniche', currency = 'CRN', explorer, testnet }: CornicheParameters): CornicheChain {
  const http = typeof rpc === 'string' ? [rpc] : [...rpc];
  const given = typeof webSocket === 'string' ? [webSocket] : webSocket;
  return defineChain({
    id,
    name,
    nativeCurrency: { name: currency === 'CRN' ? 'Corniche' : currency, symbol: currency, decimals: 18 },
    rpcUrls: { default: { http, webSocket: given ? [...given] : http.map((url) => url.replace(/^http/, 'ws')) } },
    ...(explorer === undefined ? {} : { blockExplorers: { default: { name: 'Explorer', url: explorer } } }),
    ...(testnet === undefined ? {} : { testnet }),
    blockTime: BLOCK_TIME,
    contracts: { multicall3: { address: MULTICALL3 } },
  }) as CornicheChain;
}

/**
 * Defines the chain of the node at this URL. The node is trusted; with a genesis, use `cornicheOf` instead.
 *
 * @example
 * const chain = await cornicheAt('http://127.0.0.1:8545');
 */
export async function cornicheAt(
  rpc: string,
  { transport, ...more }: Omit<CornicheParameters, 'id' | 'rpc'> & { transport?: HttpTransportConfig } = {},
): Promise<CornicheChain> {
  const id = await getChainId(createClient({ transport: http(rpc, transport) }));
  return defineCorniche({ id, rpc, ...more });
}

/** The fields of a genesis that are used. */
export interface Genesis {
  chain_id: number;
  currency: string;
}

/** Defines the chain of a genesis that was parsed with `JSON.parse`. */
export function cornicheOf(genesis: Genesis, more: Omit<CornicheParameters, 'id' | 'currency'>): CornicheChain {
  if (!Number.isSafeInteger(genesis.chain_id)) throw new RangeError(`the chain id ${genesis.chain_id} is no integer that JavaScript keeps exactly`);
  return defineCorniche({ id: genesis.chain_id, currency: genesis.currency, ...more });
}
