import { createClient, defineChain, http, type Chain, type HttpTransportConfig } from 'viem';
import { getChainId } from 'viem/actions';

/** Where the Multicall3 that every chain has answers: the node runs it itself. */
export const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11';

/** Milliseconds between blocks that viem reckons with. A transaction does not wait that long: it makes a block where there is none. */
const BLOCK_TIME = 1_000;

export interface CornicheParameters {
  /** The chain id. Every chain has its own; `cornicheAt` asks a node for it, and a genesis says it (`cornicheOf`). */
  id: number;
  /** URLs of nodes, by HTTP. */
  rpc: string | readonly string[];
  /** The same by WebSocket; without it, those of `rpc` with `ws` for `http`, which is where a node listens. */
  webSocket?: string | readonly string[];
  /** What wallets call the network; Corniche. */
  name?: string;
  /** The currency's symbol; CRN. */
  currency?: string;
  /** An explorer's address. */
  explorer?: string;
  /** Whether wallets should say that what it holds is worth nothing. */
  testnet?: boolean;
}

/** A chain as viem describes one. */
export type CornicheChain = Chain & { contracts: { multicall3: { address: typeof MULTICALL3 } } };

/**
 * A Corniche chain for viem's clients.
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
 * The chain that the node at this URL is of. It is believed: with a genesis at hand, use `cornicheOf`.
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

/** What of a genesis a description of its chain needs. */
export interface Genesis {
  chain_id: number;
  currency: string;
}

/** The chain of a genesis, read with `JSON.parse`. */
export function cornicheOf(genesis: Genesis, more: Omit<CornicheParameters, 'id' | 'currency'>): CornicheChain {
  if (!Number.isSafeInteger(genesis.chain_id)) throw new RangeError(`the chain id ${genesis.chain_id} is no integer that JavaScript keeps exactly`);
  return defineCorniche({ id: genesis.chain_id, currency: genesis.currency, ...more });
}
