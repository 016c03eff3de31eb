/**
 * Corniche for viem: chain definitions, and the `corniche_` methods as actions.
 *
 * @packageDocumentation
 */

export { InterfaceError, LONGEST_ABI, readAbi } from './abi.ts';
export { MULTICALL3, cornicheAt, cornicheOf, defineCorniche, type CornicheChain, type CornicheParameters, type Genesis } from './chain.ts';
export { cornicheActions, type CornicheActions } from './actions/index.ts';
export { contractAbi, type ContractAbiParameters } from './actions/contractAbi.ts';
export {
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
  type DagParameters,
} from './actions/queries.ts';
export type { BlockParameter } from './actions/request.ts';
export { verifyAccount, verifyBlock, type VerifyAccountParameters, type VerifyBlockParameters } from './actions/verify.ts';
export { waitForCertificate, type WaitForCertificateParameters } from './actions/waitForCertificate.ts';
export { CertificateTimeoutError, TransactionDroppedError, TransactionReplacedError } from './errors.ts';
export {
  signersOf,
  type BatchRange,
  type Certificate,
  type Dag,
  type Execution,
  type HeadBlock,
  type Heads,
  type LeaderSlot,
  type Ordering,
  type Peer,
  type Peers,
  type SkippedTransaction,
  type StakedValidator,
  type Staking,
  type StakingRules,
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
export {
  ConflictError,
  VerificationError,
  Verifier,
  isStale,
  loadVerifier,
  type FinalHeader,
  type OpenParameters,
  type ProvenAccount,
  type TrustStorage,
  type VerifierSource,
} from './verifier.ts';
