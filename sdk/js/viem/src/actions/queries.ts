import { numberToHex, type Hash } from 'viem';
import {
  formatCertificate,
  formatDag,
  formatExecution,
  formatHeads,
  formatOrdering,
  formatPeers,
  formatStatistics,
  formatTransactionStatus,
  formatValidators,
  type Certificate,
  type Dag,
  type Execution,
  type Heads,
  type Ordering,
  type Peers,
  type Statistics,
  type TransactionStatus,
  type Validators,
} from '../format.ts';
import { ask, blockId, type AnyClient, type BlockParameter } from './request.ts';

/**
 * The newest executed block and the newest certified one (`corniche_getHeads`). The blocks themselves are viem's
 * `getBlock({ blockTag: 'latest' })` and `getBlock({ blockTag: 'finalized' })`.
 *
 * @example
 * const { executed, certified } = await client.getHeads();
 */
export const getHeads = async (client: AnyClient): Promise<Heads> => formatHeads(await ask(client, 'corniche_getHeads'));

/**
 * Where a transaction stands or how it left, and since when (`corniche_getTransactionStatus`). `null`: the node does not know of it.
 *
 * @example
 * const status = await client.getTransactionStatus({ hash });
 * if (status?.status === 'dropped') console.log(status.reason);
 */
export async function getTransactionStatus(client: AnyClient, { hash }: { hash: Hash }): Promise<TransactionStatus | null> {
  const answer = await ask(client, 'corniche_getTransactionStatus', hash);
  return answer && formatTransactionStatus(answer);
}

/**
 * The certificate that makes a block final, which may be a later block's (`corniche_getCertificate`). `null`: there is none yet. Nothing of
 * it is checked here; a `Verifier` does that.
 *
 * @example
 * const certificate = await client.getCertificate({ blockNumber: 7n });
 */
export async function getCertificate(client: AnyClient, block: BlockParameter = {}): Promise<Certificate | null> {
  const answer = await ask(client, 'corniche_getCertificate', blockId(block));
  return answer && formatCertificate(answer);
}

/**
 * How a block was ordered and what was skipped (`corniche_getOrdering`). `null`: there is no such block, or it is block 0.
 *
 * @example
 * const ordering = await client.getOrdering({ blockNumber: 7n });
 */
export async function getOrdering(client: AnyClient, block: BlockParameter = {}): Promise<Ordering | null> {
  const answer = await ask(client, 'corniche_getOrdering', blockId(block));
  return answer && formatOrdering(answer);
}

/**
 * Who orders and signs, and how many signatures make a certificate (`corniche_getValidators`).
 *
 * @example
 * const { validators, quorum } = await client.getValidators();
 */
export const getValidators = async (client: AnyClient): Promise<Validators> =>
  formatValidators(await ask(client, 'corniche_getValidators'));

/**
 * The node and whom it is connected with: version, validator, round trip (`corniche_getPeers`).
 *
 * @example
 * const { own, peers } = await client.getPeers();
 */
export const getPeers = async (client: AnyClient): Promise<Peers> => formatPeers(await ask(client, 'corniche_getPeers'));

/** Rounds from and to, both counted, or the newest so many. */
export type DagParameters = { fromRound: bigint; toRound: bigint } | { latest: number };

/**
 * What a validator's ordering did lately (`corniche_getDag`). A full node refuses.
 *
 * @example
 * const { vertices } = await client.getDag({ latest: 10 });
 */
export async function getDag(client: AnyClient, rounds: DagParameters): Promise<Dag> {
  const answer =
    'latest' in rounds
      ? ask(client, 'corniche_getDag', 'latest', numberToHex(rounds.latest))
      : ask(client, 'corniche_getDag', numberToHex(rounds.fromRound), numberToHex(rounds.toRound));
  return formatDag(await answer);
}

/**
 * What running a block took on this node (`corniche_getExecution`), which is no fact of the chain. `null`: there is no such block, or the
 * node keeps nothing of it any more.
 *
 * @example
 * const execution = await client.getExecution({ blockNumber: 7n });
 */
export async function getExecution(client: AnyClient, block: BlockParameter = {}): Promise<Execution | null> {
  const answer = await ask(client, 'corniche_getExecution', blockId(block));
  return answer && formatExecution(answer);
}

/**
 * What the node's execution did since it started (`corniche_getStatistics`).
 *
 * @example
 * const { executed, adopted } = await client.getStatistics();
 */
export const getStatistics = async (client: AnyClient): Promise<Statistics> =>
  formatStatistics(await ask(client, 'corniche_getStatistics'));
