import { numberToHex, type Hash } from 'viem';
import {
  formatCertificate,
  formatDag,
  formatExecution,
  formatHeads,
  formatOrdering,
  formatPeers,
  formatStaking,
  formatStatistics,
  formatTransactionStatus,
  formatValidators,
  type Certificate,
  type Dag,
  type Execution,
  type Heads,
  type Ordering,
  type Peers,
  type Staking,
  type Statistics,
  type TransactionStatus,
  type Validators,
} from '../format.ts';
import { ask, blockId, type AnyClient, type BlockParameter } from './request.ts';

/**
 * Returns the newest executed block and the newest certified one (`corniche_getHeads`). For the blocks themselves use
 * viem's `getBlock({ blockTag: 'latest' })` and `getBlock({ blockTag: 'finalized' })`.
 *
 * @example
 * const { executed, certified } = await client.getHeads();
 */
export const getHeads = async (client: AnyClient): Promise<Heads> => formatHeads(await ask(client, 'corniche_getHeads'));

/**
 * Returns the status of a transaction with times (`corniche_getTransactionStatus`); `null` if the node does not know
 * it.
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
 * Returns the certificate that makes a block final, which may be that of a later block (`corniche_getCertificate`);
 * `null` before it exists. The certificate is not checked; use a `Verifier` for that.
 *
 * @example
 * const certificate = await client.getCertificate({ blockNumber: 7n });
 */
export async function getCertificate(client: AnyClient, block: BlockParameter = {}): Promise<Certificate | null> {
  const answer = await ask(client, 'corniche_getCertificate', blockId(block));
  return answer && formatCertificate(answer);
}

/**
 * Returns the ordering of a block and its skipped transactions (`corniche_getOrdering`). `null` for block 0 and for
 * unknown blocks.
 *
 * @example
 * const ordering = await client.getOrdering({ blockNumber: 7n });
 */
export async function getOrdering(client: AnyClient, block: BlockParameter = {}): Promise<Ordering | null> {
  const answer = await ask(client, 'corniche_getOrdering', blockId(block));
  return answer && formatOrdering(answer);
}

/**
 * Returns the committee, and the number of signatures of a certificate (`corniche_getValidators`).
 *
 * @example
 * const { validators, quorum } = await client.getValidators();
 */
export const getValidators = async (client: AnyClient): Promise<Validators> =>
  formatValidators(await ask(client, 'corniche_getValidators'));

/**
 * Returns the stake after a block: the running epoch, and all validators (`corniche_getStaking`). `null` on a chain
 * without staking.
 *
 * @example
 * const staking = await client.getStaking();
 * if (staking) console.log(staking.epoch, staking.validators.map(({ bonded }) => bonded));
 */
export async function getStaking(client: AnyClient, block: BlockParameter = {}): Promise<Staking | null> {
  const answer = await ask(client, 'corniche_getStaking', blockId(block));
  return answer && formatStaking(answer);
}

/**
 * Returns the node and its peers: version, validator, round trip (`corniche_getPeers`).
 *
 * @example
 * const { own, peers } = await client.getPeers();
 */
export const getPeers = async (client: AnyClient): Promise<Peers> => formatPeers(await ask(client, 'corniche_getPeers'));

/** A range of rounds, both ends included, or the number of newest rounds. */
export type DagParameters = { fromRound: bigint; toRound: bigint } | { latest: number };

/**
 * Returns a validator's consensus DAG (`corniche_getDag`). A full node rejects this.
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
 * Returns the execution statistics of a block on this node, which are not part of the chain (`corniche_getExecution`).
 * `null` for unknown blocks, and for old ones that the node has dropped.
 *
 * @example
 * const execution = await client.getExecution({ blockNumber: 7n });
 */
export async function getExecution(client: AnyClient, block: BlockParameter = {}): Promise<Execution | null> {
  const answer = await ask(client, 'corniche_getExecution', blockId(block));
  return answer && formatExecution(answer);
}

/**
 * Returns the node's execution statistics since it started (`corniche_getStatistics`).
 *
 * @example
 * const { executed, adopted } = await client.getStatistics();
 */
export const getStatistics = async (client: AnyClient): Promise<Statistics> =>
  formatStatistics(await ask(client, 'corniche_getStatistics'));
