import { contractAbi } from './contractAbi.ts';
import {
  getCertificate,
  getDag,
  getExecution,
  getHeads,
  getOrdering,
  getPeers,
  getStaking,
  getStatistics,
  getTransactionStatus,
  getValidators,
} from './queries.ts';
import type { AnyClient } from './request.ts';
import { verifyAccount, verifyBlock } from './verify.ts';
import { waitForCertificate } from './waitForCertificate.ts';

const actions = {
  contractAbi,
  getCertificate,
  getDag,
  getExecution,
  getHeads,
  getOrdering,
  getPeers,
  getStaking,
  getStatistics,
  getTransactionStatus,
  getValidators,
  verifyAccount,
  verifyBlock,
  waitForCertificate,
};

type Bound<F> = F extends (client: AnyClient, ...parameters: infer P) => infer R ? (...parameters: P) => R : never;

/** The actions that `cornicheActions` adds to a client. */
export type CornicheActions = { [A in keyof typeof actions]: Bound<(typeof actions)[A]> };

/**
 * Returns the `corniche_` methods as actions for a client.
 *
 * @example
 * const client = createPublicClient({ chain, transport: http() }).extend(cornicheActions());
 * const { certified } = await client.getHeads();
 */
export function cornicheActions(): (client: AnyClient) => CornicheActions {
  return (client) => {
    const bound = Object.entries(actions).map(([name, action]) => [name, (action as (...all: unknown[]) => unknown).bind(undefined, client)]);
    return Object.fromEntries(bound) as CornicheActions;
  };
}
