/**
 * Corniche for viem: its chain, and the `corniche_` methods as actions.
 *
 * @packageDocumentation
 */

export { MULTICALL3, cornicheAt, cornicheOf, defineCorniche, type CornicheChain, type CornicheParameters, type Genesis } from './chain.ts';
export { cornicheActions, type CornicheActions } from './actions/index.ts';
export {
  getCertificate,
  getDag,
  getHeads,
  getOrdering,
  getStatistics,
  getTransactionStatus,
  getValidators,
  type DagParameters,
} from './actions/queries.ts';
export type { BlockParameter } from './actions/request.ts';
export { waitForCertificate, type WaitForCertificateParameters } from './actions/waitForCertificate.ts';
export { CertificateTimeoutError, TransactionDroppedError, TransactionReplacedError } from './errors.ts';
export {
  signersOf,
  type BatchRange,
  type Certificate,
  type Dag,
  type HeadBlock,
  type Heads,
  type LeaderSlot,
  type Ordering,
  type SkippedTransaction,
  type Statistics,
  type TransactionStatus,
  type TransactionTimes,
  type Validator,
  type Validators,
  type Vertex,
} from './format.ts';
export type * as rpc from './rpc.ts';
export type { Method, Methods, RpcSchema } from './rpc.ts';
export type { CornicheRpcSchema } from './schema.ts';
