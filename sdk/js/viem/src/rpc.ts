// Made from the document that a node serves as rpc_discover: `npm run types` in sdk/js.
/* eslint-disable */

/**
 * Address of an account: 20 bytes.
 */
export type Address = `0x${string}`;
/**
 * 32 bytes.
 */
export type Bytes32 = `0x${string}`;
/**
 * Accounts and storage slots that a transaction declares in advance (EIP-2930).
 */
export type AccessList = {
  address: Address;
  storageKeys: Bytes32[];
}[];
/**
 * Data of any length.
 */
export type Bytes = `0x${string}`;
/**
 * Sibling hashes of 32 bytes along the path of a key, from the root down. The last item is the end of the path: 00 for nothing; 01 and the value; 02, another key and its value's hash.
 */
export type TreePath = Bytes[];
/**
 * A hexadecimal number without leading zeros.
 */
export type Quantity = `0x${string}`;
/**
 * Key of a storage slot: up to 32 bytes.
 */
export type Slot = `0x${string}`;
/**
 * 32 bytes.
 */
export type Hash = `0x${string}`;
/**
 * A JSON number.
 */
export type PlainNumber = number;
export type Block = Header & {
  transactions: Hash[] | Transaction[];
  uncles: Hash[];
};
/**
 * A block by tag, number or hash, also in EIP-1898's format. Default: `latest`.
 */
export type BlockId =
  | BlockName
  | Hash
  | {
      blockHash: Hash;
      requireCanonical?: boolean;
    }
  | {
      blockNumber: BlockName;
    };
/**
 * A block by number or tag: `latest` is the newest executed block, `safe` and `finalized` the newest certified one.
 */
export type BlockName = Quantity | ('earliest' | 'finalized' | 'safe' | 'latest' | 'pending');
export type Boolean = boolean;
export type Text = string;
/**
 * A small number: hexadecimal string or JSON number.
 */
export type Count = Quantity | number;
/**
 * Number of an epoch; latest: the running one.
 */
export type EpochId = Quantity | 'latest';
export type FirstRound = Quantity | 'latest';
export type Numbers = number[];
export type SimulatedBlock = Block & {
  calls: {
    error?: {
      code: number;
      data?: Bytes;
      message: Text;
    };
    gasUsed: Quantity;
    logs: Log[];
    returnData: Bytes;
    /**
     * A hexadecimal number without leading zeros.
     */
    status: `0x${string}`;
  }[];
};
export type Topic = 'newHeads' | 'logs' | 'newPendingTransactions' | 'syncing' | 'corniche_dag' | 'epochs';
export type Trace = CallFrame | PrestateDifference | Prestate;
export type TransactionStatus = TransactionTimes &
  (
    | {
        status: 'pending' | 'ordered';
      }
    | {
        blockHash: Hash;
        blockNumber: Quantity;
        status: 'executed' | 'certified';
      }
    | {
        reason: string;
        status: 'dropped';
      }
    | {
        by: Hash;
        status: 'replaced';
      }
  );

/**
 * Every type by its name.
 */
export interface Types {
  AccessList: AccessList;
  AccessListResult: AccessListResult;
  AccountProof: AccountProof;
  Address: Address;
  AnvilNodeInfo: AnvilNodeInfo;
  Block: Block;
  BlockId: BlockId;
  BlockName: BlockName;
  BlockOverrides: BlockOverrides;
  Boolean: Boolean;
  Bytes: Bytes;
  Bytes32: Bytes32;
  Call: Call;
  CallFrame: CallFrame;
  Certificate: Certificate;
  CommitteeInfo: CommitteeInfo;
  CommitteeSeat: CommitteeSeat;
  Count: Count;
  Dag: Dag;
  EpochChange: EpochChange;
  EpochId: EpochId;
  EpochInfo: EpochInfo;
  Execution: Execution;
  FeeHistory: FeeHistory;
  FetchStatus: FetchStatus;
  FirstRound: FirstRound;
  FollowingEpoch: FollowingEpoch;
  HardhatMetadata: HardhatMetadata;
  Hash: Hash;
  HeadBlock: HeadBlock;
  Header: Header;
  Heads: Heads;
  LinesByAccount: LinesByAccount;
  Log: Log;
  LogFilter: LogFilter;
  MineOptions: MineOptions;
  Modules: Modules;
  Numbers: Numbers;
  Offence: Offence;
  Offences: Offences;
  OfferedSnapshot: OfferedSnapshot;
  OpenRpc: OpenRpc;
  Ordering: Ordering;
  OtsBlock: OtsBlock;
  OtsBlockDetails: OtsBlockDetails;
  OtsBlockTransactions: OtsBlockTransactions;
  OtsCall: OtsCall;
  OtsCreator: OtsCreator;
  OtsOperation: OtsOperation;
  OtsPage: OtsPage;
  OtsReceipt: OtsReceipt;
  Peer: Peer;
  Peers: Peers;
  PlainNumber: PlainNumber;
  PoolContent: PoolContent;
  PoolContentFrom: PoolContentFrom;
  PoolLines: PoolLines;
  PoolStatus: PoolStatus;
  Prestate: Prestate;
  PrestateDifference: PrestateDifference;
  Quantity: Quantity;
  Receipt: Receipt;
  ResetOptions: ResetOptions;
  ShardCertificate: ShardCertificate;
  ShardedTransaction: ShardedTransaction;
  Shards: Shards;
  SimulatedBlock: SimulatedBlock;
  Simulation: Simulation;
  Slot: Slot;
  SlotProof: SlotProof;
  Slots: Slots;
  SlotsByAccount: SlotsByAccount;
  StakedValidator: StakedValidator;
  Staking: Staking;
  StakingRules: StakingRules;
  StateOverrides: StateOverrides;
  Statistics: Statistics;
  SyncProgress: SyncProgress;
  SyncStatus: SyncStatus;
  Text: Text;
  Topic: Topic;
  Trace: Trace;
  TracedTransaction: TracedTransaction;
  Tracer: Tracer;
  Transaction: Transaction;
  TransactionStatus: TransactionStatus;
  TransactionTimes: TransactionTimes;
  TransactionsByAccount: TransactionsByAccount;
  TransactionsByNonce: TransactionsByNonce;
  TreePath: TreePath;
  Validators: Validators;
  ValuesByAccount: ValuesByAccount;
}
export interface AccessListResult {
  accessList: AccessList;
  /**
   * Reason why the call fails; absent if it succeeds.
   */
  error?: string;
  /**
   * Gas used by the call with this list.
   */
  gasUsed: `0x${string}`;
}
export interface AccountProof {
  accountProof: TreePath;
  address: Address;
  balance: Quantity;
  /**
   * 32 bytes.
   */
  codeHash: `0x${string}`;
  nonce: Quantity;
  /**
   * 32 bytes.
   */
  storageHash: `0x${string}`;
  storageProof: SlotProof[];
}
export interface SlotProof {
  key: Slot;
  proof: TreePath;
  value: Quantity;
}
export interface AnvilNodeInfo {
  currentBlockHash: Hash;
  currentBlockNumber: Quantity;
  currentBlockTimestamp: PlainNumber;
  environment: {
    /**
     * A hexadecimal number without leading zeros.
     */
    baseFee: `0x${string}`;
    chainId: PlainNumber;
    gasLimit: Quantity;
    /**
     * A hexadecimal number without leading zeros.
     */
    gasPrice: `0x${string}`;
  };
  /**
   * All null: forking is not supported.
   */
  forkConfig: {
    forkBlockNumber: null;
    forkRetryBackoff: null;
    forkUrl: null;
  };
  /**
   * Newest Ethereum fork of which all transaction types are accepted.
   */
  hardFork: 'shanghai';
  /**
   * Transactions with higher fees come first.
   */
  transactionOrder: 'fees';
}
export interface Header {
  baseFeePerGas: Quantity;
  difficulty: Quantity;
  /**
   * Data of any length.
   */
  extraData: `0x${string}`;
  gasLimit: Quantity;
  gasUsed: Quantity;
  hash: Hash;
  logsBloom: `0x${string}`;
  /**
   * Address of an account: 20 bytes.
   */
  miner: `0x${string}`;
  /**
   * 32 bytes.
   */
  mixHash: `0x${string}`;
  nonce: `0x${string}`;
  number: Quantity;
  parentHash: Hash;
  receiptsRoot: Hash;
  sha3Uncles: Hash;
  size?: Quantity;
  /**
   * 32 bytes.
   */
  stateRoot: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  timestamp: `0x${string}`;
  totalDifficulty?: Quantity;
  transactionsRoot: Hash;
}
export interface Transaction {
  accessList?: AccessList;
  /**
   * Hash of its block; null while pending.
   */
  blockHash: Hash | null;
  blockNumber: Quantity | null;
  blockTimestamp?: Quantity | null;
  chainId?: Quantity;
  from: Address;
  gas: Quantity;
  /**
   * A hexadecimal number without leading zeros.
   */
  gasPrice: `0x${string}`;
  hash: Hash;
  input: Bytes;
  maxFeePerGas?: Quantity;
  maxPriorityFeePerGas?: Quantity;
  nonce: Quantity;
  r: Quantity;
  s: Quantity;
  /**
   * Recipient; null for a contract creation.
   */
  to?: Address | null;
  transactionIndex: Quantity | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  type: `0x${string}`;
  v: Quantity;
  value: Quantity;
  yParity?: Quantity;
}
/**
 * Overrides of a block's fields.
 */
export interface BlockOverrides {
  baseFeePerGas?: Quantity;
  feeRecipient?: Address;
  gasLimit?: Quantity;
  number?: Quantity;
  prevRandao?: Bytes32;
  time?: Quantity;
}
/**
 * A transaction to simulate; every field is optional. `input` and `data` are synonyms.
 */
export interface Call {
  accessList?: AccessList;
  chainId?: Quantity;
  data?: Bytes;
  from?: Address;
  gas?: Quantity;
  gasPrice?: Quantity;
  input?: Bytes;
  maxFeePerGas?: Quantity;
  maxPriorityFeePerGas?: Quantity;
  nonce?: Quantity;
  to?: Address | null;
  type?: Quantity;
  value?: Quantity;
}
export interface CallFrame {
  calls?: CallFrame[];
  error?: Text;
  from: Address;
  gas: Quantity;
  gasUsed: Quantity;
  input: Bytes;
  logs?: {
    address: Address;
    data: Bytes;
    /**
     * A hexadecimal number without leading zeros.
     */
    position: `0x${string}`;
    topics: Bytes32[];
  }[];
  output?: Bytes;
  revertReason?: Text;
  /**
   * Address of an account: 20 bytes.
   */
  to?: `0x${string}`;
  type: 'CALL' | 'STATICCALL' | 'DELEGATECALL' | 'CREATE' | 'CREATE2';
  value?: Quantity;
}
export interface Certificate {
  blockHash: Hash;
  /**
   * A hexadecimal number without leading zeros.
   */
  blockNumber: `0x${string}`;
  committeeHash: Hash;
  epoch: Quantity;
  faultModel: 'byzantine' | 'crash';
  /**
   * A BLS12-381 point, compressed.
   */
  signature: `0x${string}`;
  /**
   * Data of any length.
   */
  signers: `0x${string}`;
}
/**
 * Committee of an epoch.
 */
export interface CommitteeInfo {
  /**
   * 32 bytes.
   */
  committeeHash: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  epoch: `0x${string}`;
  /**
   * Members by index.
   */
  members: CommitteeSeat[];
  /**
   * A hexadecimal number without leading zeros.
   */
  quorum: `0x${string}`;
}
/**
 * A member of a committee.
 */
export interface CommitteeSeat {
  /**
   * BLS12-381, compressed: signs headers.
   */
  blsKey: `0x${string}`;
  /**
   * ed25519: signs the engine's messages. Null for past epochs.
   */
  consensusKey: Bytes32 | null;
  /**
   * Recipient of its tips. Null for past epochs.
   */
  feeAddress: Address | null;
  /**
   * Number of the validator in the staking contract. Null without staking, and for committees that are more than 63 epochs old.
   */
  id: Quantity | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  index: `0x${string}`;
  /**
   * ed25519: the identity of its connections. Null for past epochs.
   */
  networkKey: Bytes32 | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  votes: `0x${string}`;
}
export interface Dag {
  dropped: Quantity;
  fromRound: Quantity;
  newestRound: Quantity;
  order: Hash[];
  slots: {
    /**
     * A hexadecimal number without leading zeros.
     */
    commit?: `0x${string}`;
    /**
     * Under Autobahn: validators that confirmed the votes in the second step of the slow path; absent on the fast path.
     */
    confirmers?: Quantity[];
    decidedMs?: Quantity;
    digest?: Hash;
    rank: Quantity;
    round: Quantity;
    status: 'committed' | 'skipped' | 'undecided';
    validator: Quantity;
    /**
     * Under Autobahn: validators whose votes for the cut are in its certificate; absent if only the second step of the slow path was seen.
     */
    voters?: Quantity[];
    why?: string;
  }[];
  toRound: Quantity;
  vertices: {
    acceptedMs?: Quantity;
    author: Quantity;
    batchBytes: Quantity;
    /**
     * 32 bytes.
     */
    batchDigest?: `0x${string}`;
    digest: Hash;
    /**
     * Under Autobahn: validators that signed that they hold it and all below it in its lane; absent while no such proof is known.
     */
    holders?: Quantity[];
    parents: Hash[];
    proposedMs?: Quantity;
    round: Quantity;
  }[];
}
export interface EpochChange {
  certificate: Certificate;
  /**
   * A hexadecimal number without leading zeros.
   */
  epoch: `0x${string}`;
  /**
   * Data of any length.
   */
  head: `0x${string}`;
  /**
   * Data of any length.
   */
  header: `0x${string}`;
  /**
   * Members of the next committee, by index. Null if BLS keys and votes stay.
   */
  members:
    | null
    | {
        /**
         * Data of any length.
         */
        blsKey: `0x${string}`;
        votes: number;
      }[];
}
/**
 * An epoch; times in Unix milliseconds of the chain's clock.
 */
export interface EpochInfo {
  /**
   * 32 bytes.
   */
  committeeHash: `0x${string}`;
  /**
   * Time from which a block is its last one; null if epochs never end.
   */
  dueMs: Quantity | null;
  /**
   * Time of its last block; null while it runs.
   */
  endMs: Quantity | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  epoch: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  firstBlock: `0x${string}`;
  /**
   * Height of its last block; null while it runs.
   */
  lastBlock: Quantity | null;
  /**
   * The next epoch, as the last block names it; null while the epoch runs.
   */
  next: FollowingEpoch | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  protocolVersion: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  startMs: `0x${string}`;
}
/**
 * The epoch after another, as the last block of that one names it.
 */
export interface FollowingEpoch {
  /**
   * 32 bytes.
   */
  committeeHash: `0x${string}`;
  /**
   * 32 bytes.
   */
  lightRoot: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  protocolVersion: `0x${string}`;
}
/**
 * Statistics of one execution of a block on this node. Not part of consensus.
 */
export interface Execution {
  /**
   * A hexadecimal number without leading zeros.
   */
  adopted: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  durationUs: `0x${string}`;
  /**
   * Data of any length.
   */
  laneOf: `0x${string}`;
  /**
   * Data of any length.
   */
  receivedOf: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  runs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  runsAgain: `0x${string}`;
  /**
   * Data of any length.
   */
  runsOf: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  threads: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  waits: `0x${string}`;
}
export interface FeeHistory {
  baseFeePerBlobGas?: Quantity[];
  /**
   * One more item than blocks: the last is the base fee of the next block.
   */
  baseFeePerGas: Quantity[];
  blobGasUsedRatio?: number[];
  gasUsedRatio: number[];
  oldestBlock: Quantity;
  reward?: Quantity[][];
}
/**
 * How far a node is that fetches a snapshot. Numbers of chunks and bytes are 0 before a snapshot is chosen.
 */
export interface FetchStatus {
  /**
   * A hexadecimal number without leading zeros.
   */
  bytes: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  chunks: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  epoch: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  fetchedBytes: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  fetchedChunks: `0x${string}`;
  /**
   * Height of the snapshot's block; null before one is chosen.
   */
  height: Quantity | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  peers: `0x${string}`;
  /**
   * trust: committees of all epochs; offers: choice of a snapshot; manifest: list of its chunks; chunks: the state itself.
   */
  phase: 'trust' | 'offers' | 'manifest' | 'chunks' | 'ended';
}
export interface HardhatMetadata {
  chainId: PlainNumber;
  clientVersion: Text;
  /**
   * 32 bytes.
   */
  instanceId: `0x${string}`;
  latestBlockHash: Hash;
  latestBlockNumber: PlainNumber;
}
export interface HeadBlock {
  hash: Hash;
  number: Quantity;
  /**
   * A hexadecimal number without leading zeros.
   */
  timestampMs: `0x${string}`;
}
export interface Heads {
  certified: HeadBlock;
  executed: HeadBlock;
}
export interface LinesByAccount {
  [k: string]: {
    [k: string]: string;
  };
}
export interface Log {
  address: Address;
  blockHash: Hash;
  blockNumber: Quantity;
  blockTimestamp?: Quantity;
  data: Bytes;
  logIndex: Quantity;
  /**
   * Always false: blocks are never reverted.
   */
  removed: false;
  topics: Bytes32[];
  transactionHash: Hash;
  transactionIndex: Quantity;
}
/**
 * A range of blocks or the hash of one block; alternative addresses; alternative topics by position.
 */
export interface LogFilter {
  address?: Address | Address[] | null;
  blockHash?: Hash;
  fromBlock?: BlockName;
  toBlock?: BlockName;
  topics?: (Bytes32 | Bytes32[] | null)[];
}
/**
 * Timestamp in Unix seconds, and number of blocks.
 */
export interface MineOptions {
  blocks?: Count;
  timestamp?: Count;
}
/**
 * Versions by namespace.
 */
export interface Modules {
  [k: string]: string;
}
/**
 * A validator that was convicted for what it signed in an epoch.
 */
export interface Offence {
  /**
   * A hexadecimal number without leading zeros.
   */
  epoch: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  id: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  index: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  votes: `0x${string}`;
}
/**
 * Convictions by ascending epoch.
 */
export interface Offences {
  /**
   * First epoch that is not included, because there are many convictions; null if all are included.
   */
  next: Quantity | null;
  /**
   * Convictions by epoch, then by index.
   */
  offences: Offence[];
}
/**
 * A snapshot of the state that a node offers to its peers.
 */
export interface OfferedSnapshot {
  /**
   * A hexadecimal number without leading zeros.
   */
  bytes: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  entries: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  height: `0x${string}`;
}
/**
 * See https://spec.open-rpc.org.
 */
export interface OpenRpc {}
export interface Ordering {
  batches: {
    author: Quantity;
    count: Quantity;
    digest: Hash;
    first: Quantity;
  }[];
  committeeHash: Hash;
  /**
   * Data of any length.
   */
  encoded: `0x${string}`;
  /**
   * Canonical bytes of the tail: batches and skipped transactions. The head ends with their keccak-256. Null below protocol version 5.
   */
  encodedTail: Bytes | null;
  engine: string;
  epoch: Quantity;
  firstCommit: Quantity;
  lastCommit: Quantity;
  lastCommitConsumed: Quantity;
  /**
   * A hexadecimal number without leading zeros.
   */
  leader: `0x${string}`;
  nextCommitteeHash: Hash;
  /**
   * A hexadecimal number without leading zeros.
   */
  protocolVersion: `0x${string}`;
  randomness: Hash;
  resumeHash: Hash;
  /**
   * Transactions that were ordered but not executed.
   */
  skipped: {
    hash: Hash;
    position: Quantity;
    reason: string;
  }[];
  /**
   * A hexadecimal number without leading zeros.
   */
  timestampMs: `0x${string}`;
  transactionsHash: Hash;
}
/**
 * A block with the number of its transactions and without its bloom filter, plus the other fields of a block.
 */
export interface OtsBlock {
  baseFeePerGas?: Quantity;
  gasLimit: Quantity;
  gasUsed: Quantity;
  hash: Hash;
  logsBloom: null;
  miner?: Address;
  number: Quantity;
  parentHash: Hash;
  size: Quantity;
  timestamp: Quantity;
  transactionCount: PlainNumber;
  transactions?: Transaction[];
}
export interface OtsBlockDetails {
  block: OtsBlock;
  /**
   * Always 0.
   */
  issuance: {
    blockReward: Quantity;
    issuance: Quantity;
    uncleReward: Quantity;
  };
  /**
   * A hexadecimal number without leading zeros.
   */
  totalFees: `0x${string}`;
}
export interface OtsBlockTransactions {
  fullblock: OtsBlock;
  receipts: OtsReceipt[];
}
/**
 * A receipt with all its fields, and the timestamp of its block. Without logs in results for a whole block.
 */
export interface OtsReceipt {
  blockHash: Hash;
  blockNumber: Quantity;
  contractAddress?: Address | null;
  effectiveGasPrice: Quantity;
  from: Address;
  gasUsed: Quantity;
  logs: Log[] | null;
  logsBloom: `0x${string}` | null;
  status: '0x0' | '0x1';
  /**
   * A JSON number.
   */
  timestamp: number;
  to: Address | null;
  transactionHash: Hash;
}
export interface OtsCall {
  /**
   * A JSON number.
   */
  depth: number;
  from: Address;
  input: Bytes;
  output: Bytes;
  to: Address;
  type: 'CALL' | 'STATICCALL' | 'DELEGATECALL' | 'CREATE' | 'CREATE2';
  /**
   * Wei sent with the call; null for calls that cannot send wei.
   */
  value: Quantity | null;
}
export interface OtsCreator {
  creator: Address;
  hash: Hash;
}
export interface OtsOperation {
  from: Address;
  to: Address;
  /**
   * 0: value transfer; 2: contract creation by create; 3: contract creation by create2.
   */
  type: 0 | 2 | 3;
  value: Quantity;
}
/**
 * Newest first. Transactions of one block are never split between pages, so a page may exceed the requested size.
 */
export interface OtsPage {
  /**
   * True: there are no newer transactions.
   */
  firstPage: boolean;
  /**
   * True: there are no older transactions.
   */
  lastPage: boolean;
  receipts: OtsReceipt[];
  txs: Transaction[];
}
export interface Peer {
  /**
   * A hexadecimal number without leading zeros.
   */
  connectedMs?: `0x${string}`;
  /**
   * Address of an account: 20 bytes.
   */
  feeAddress?: `0x${string}`;
  /**
   * 32 bytes.
   */
  networkKey: `0x${string}`;
  /**
   * Network key in libp2p's format.
   */
  peerId: string;
  /**
   * A hexadecimal number without leading zeros.
   */
  roundTripUs?: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  validator?: `0x${string}`;
  /**
   * Version reported by the peer itself, not verified: at most 64 characters of printable ASCII.
   */
  version?: string;
}
export interface Peers {
  /**
   * The queried node; null if it has no identity among peers.
   */
  own: Peer | null;
  peers: Peer[];
}
export interface PoolContent {
  pending: TransactionsByAccount;
  queued: TransactionsByAccount;
}
export interface TransactionsByAccount {
  [k: string]: TransactionsByNonce;
}
/**
 * Transactions by nonce in decimal digits.
 */
export interface TransactionsByNonce {
  [k: string]: Transaction;
}
export interface PoolContentFrom {
  pending: TransactionsByNonce;
  queued: TransactionsByNonce;
}
export interface PoolLines {
  pending: LinesByAccount;
  queued: LinesByAccount;
}
export interface PoolStatus {
  pending: Quantity;
  queued: Quantity;
}
/**
 * Accounts as they were before the execution.
 */
export interface Prestate {
  [k: string]: {
    balance?: Quantity;
    code?: Bytes;
    nonce?: number;
    storage?: Slots;
  };
}
/**
 * Values by slot.
 */
export interface Slots {
  [k: string]: Bytes32;
}
/**
 * Accounts that the execution changed: their state before it, and their changed values after it.
 */
export interface PrestateDifference {
  post: Prestate;
  pre: Prestate;
}
export interface Receipt {
  blockHash: Hash;
  blockNumber: Quantity;
  /**
   * Address of the created contract; null if none was created.
   */
  contractAddress: Address | null;
  cumulativeGasUsed: Quantity;
  effectiveGasPrice: Quantity;
  from: Address;
  gasUsed: Quantity;
  logs: Log[];
  logsBloom: `0x${string}`;
  /**
   * 0x1: success; 0x0: failure.
   */
  status: '0x0' | '0x1';
  to: Address | null;
  transactionHash: Hash;
  transactionIndex: Quantity;
  type: Quantity;
}
/**
 * Start of the new chain; always the genesis.
 */
export interface ResetOptions {
  /**
   * Must not contain jsonRpcUrl: forking another chain is not supported.
   */
  forking?: {};
}
export interface ShardCertificate {
  /**
   * 32 bytes.
   */
  blockHash: `0x${string}`;
  /**
   * Data of any length.
   */
  certificate: `0x${string}`;
  firstBlock: Quantity;
  lastBlock: Quantity;
  /**
   * Data of any length.
   */
  signers: `0x${string}`;
}
export interface ShardedTransaction {
  attempts: Quantity | null;
  /**
   * Transactions that wrote the values that it read.
   */
  dependencies: {
    hash: Hash | null;
    id: Hash;
  }[];
  /**
   * 32 bytes.
   */
  gateway: `0x${string}`;
  /**
   * 32 bytes.
   */
  id: `0x${string}`;
  reads: Quantity;
  /**
   * True if the queried gateway finished it for another one that stopped.
   */
  recovered: boolean;
  shards: Quantity[];
  /**
   * A hexadecimal number without leading zeros.
   */
  timestampUs: `0x${string}`;
  way: 'fast' | 'logged' | 'reconciled';
  writes: Quantity;
}
export interface Shards {
  /**
   * A hexadecimal number without leading zeros.
   */
  blockMs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  faulty: `0x${string}`;
  gateways: {
    connected: boolean;
    /**
     * 32 bytes.
     */
    consensusKey: `0x${string}`;
    /**
     * True for the queried gateway.
     */
    own: boolean;
  }[];
  shards: {
    replicas: {
      /**
       * True if this gateway has a connection with it.
       */
      connected: boolean;
      /**
       * 32 bytes.
       */
      consensusKey: `0x${string}`;
    }[];
    shard: Quantity;
  }[];
  /**
   * Counts since the gateway started.
   */
  statistics: {
    dropped: Quantity;
    /**
     * A hexadecimal number without leading zeros.
     */
    fast: `0x${string}`;
    /**
     * A hexadecimal number without leading zeros.
     */
    logged: `0x${string}`;
    /**
     * A hexadecimal number without leading zeros.
     */
    reconciled: `0x${string}`;
    /**
     * A hexadecimal number without leading zeros.
     */
    recovered: `0x${string}`;
    /**
     * A hexadecimal number without leading zeros.
     */
    retries: `0x${string}`;
  };
}
/**
 * At most 256 blocks, including those between the given numbers.
 */
export interface Simulation {
  blockStateCalls: {
    blockOverrides?: BlockOverrides;
    calls?: Call[];
    stateOverrides?: StateOverrides;
  }[];
  returnFullTransactions?: Boolean;
  /**
   * True: transfers of wei are logged as ERC-20's Transfer with the address 0xeeee…ee.
   */
  traceTransfers?: boolean;
  /**
   * True: nonces and fees are validated.
   */
  validation?: boolean;
}
/**
 * State overrides by account. `state` replaces the whole storage, `stateDiff` only the given slots.
 */
export interface StateOverrides {
  [k: string]: {
    balance?: Quantity;
    code?: Bytes;
    nonce?: Quantity;
    state?: Slots;
    stateDiff?: Slots;
  };
}
export interface SlotsByAccount {
  [k: string]: Slot[];
}
/**
 * A registered validator; amounts in wei.
 */
export interface StakedValidator {
  /**
   * True if it announced itself for the next epoch.
   */
  announced: boolean;
  /**
   * BLS12-381, compressed: signs headers.
   */
  blsKey: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  bonded: `0x${string}`;
  /**
   * A BLS12-381 point, compressed: receives its parts of the coin's key.
   */
  coinKey: `0x${string}`;
  /**
   * 32 bytes.
   */
  consensusKey: `0x${string}`;
  /**
   * Addresses that it names for connections, not verified: printable ASCII, other bytes escaped.
   */
  endpoints: string[];
  /**
   * Address of an account: 20 bytes.
   */
  fee: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  free: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  id: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  jailedUntil: `0x${string}`;
  /**
   * 32 bytes.
   */
  networkKey: `0x${string}`;
  /**
   * Account that becomes the owner when it accepts.
   */
  nextOwner: Address | null;
  /**
   * Votes in the next committee; null unless the phase is frozen.
   */
  nextVotes: Quantity | null;
  /**
   * Address of an account: 20 bytes.
   */
  operator: `0x${string}`;
  /**
   * Address of an account: 20 bytes.
   */
  owner: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  queued: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  votes: `0x${string}`;
}
/**
 * State of the staking contract at a block. Amounts are in wei, times in Unix milliseconds of the chain's clock.
 */
export interface Staking {
  /**
   * Time from which validators announce themselves for the next epoch; null if epochs never end.
   */
  announcementsMs: Quantity | null;
  /**
   * Time from which the next epoch begins; null if epochs never end.
   */
  endMs: Quantity | null;
  epoch: Quantity;
  /**
   * Time from which the next committee is fixed; null if epochs never end.
   */
  freezeMs: Quantity | null;
  parameters: StakingRules;
  /**
   * Next committee: not fixed yet; fixed, to take over at the end; the sitting one; fixed, and its coin is dealt, acknowledged or opened.
   */
  phase: 'open' | 'frozen' | 'kept' | 'dealing' | 'acknowledging' | 'opening';
  /**
   * A hexadecimal number without leading zeros.
   */
  startBlock: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  startMs: `0x${string}`;
  /**
   * Registered validators by ascending number, at most 1,000.
   */
  validators: StakedValidator[];
  /**
   * A hexadecimal number without leading zeros.
   */
  votePrice: `0x${string}`;
}
/**
 * Parameters of staking in the genesis; amounts in wei.
 */
export interface StakingRules {
  /**
   * A hexadecimal number without leading zeros.
   */
  closingMs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  coinMaxAge: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  epochMs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  jailEpochs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  maxValidators: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  maxVotes: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  minValidators: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  mostVotes: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  rewardWei: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  slashBps: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  snapshotMs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  unbondingEpochs: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  voteWei: `0x${string}`;
}
/**
 * Counts since the node started; poolTransactions is the current number.
 */
export interface Statistics {
  adopted: Quantity;
  earlyPassedOver: Quantity;
  earlyRuns: Quantity;
  earlyWithoutResult: Quantity;
  executed: Quantity;
  poolTransactions: Quantity;
  refused: Quantity;
  runs: Quantity;
  runsAgain: Quantity;
  skipped: Quantity;
}
export interface SyncProgress {
  currentBlock: Quantity;
  highestBlock: Quantity;
  startingBlock: Quantity;
}
/**
 * Blocks and snapshots that a node has.
 */
export interface SyncStatus {
  /**
   * Height of the snapshot with which the node began; null if it has all blocks.
   */
  base: Quantity | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  certified: `0x${string}`;
  /**
   * Progress of a node that fetches a snapshot and has no block yet; null otherwise.
   */
  fetch: FetchStatus | null;
  /**
   * A hexadecimal number without leading zeros.
   */
  firstBlock: `0x${string}`;
  /**
   * True while the node follows blocks that others order: always on a full node, and on a validator that does not order.
   */
  follows: boolean;
  /**
   * A hexadecimal number without leading zeros.
   */
  head: `0x${string}`;
  /**
   * Snapshots that it offers to peers, newest first.
   */
  snapshots: OfferedSnapshot[];
  /**
   * A hexadecimal number without leading zeros.
   */
  target: `0x${string}`;
  /**
   * Next block of this node, if no connected peer has it any more: the node needs an archive among its peers, or a snapshot. Otherwise null.
   */
  unavailable: Quantity | null;
}
export interface TracedTransaction {
  result: Trace;
  txHash: Hash;
}
/**
 * The first two settings are callTracer's, the others prestateTracer's. Overrides are valid for debug_traceCall only.
 */
export interface Tracer {
  blockOverrides?: BlockOverrides;
  stateOverrides?: StateOverrides;
  tracer: 'callTracer' | 'prestateTracer';
  tracerConfig?: {
    diffMode?: Boolean;
    disableCode?: Boolean;
    disableStorage?: Boolean;
    onlyTopCall?: Boolean;
    withLog?: Boolean;
  };
}
export interface TransactionTimes {
  /**
   * A hexadecimal number without leading zeros.
   */
  leftMs?: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  orderedMs?: `0x${string}`;
  /**
   * A hexadecimal number without leading zeros.
   */
  receivedMs?: `0x${string}`;
}
export interface Validators {
  committeeHash: Hash;
  engine: string;
  epoch: Quantity;
  /**
   * Faults that the engine tolerates: validators that lie, with less than a third of the votes; or only crashes, of less than half of them.
   */
  faultModel: 'byzantine' | 'crash';
  /**
   * A hexadecimal number without leading zeros.
   */
  quorum: `0x${string}`;
  /**
   * Validators that check the signature of a transaction: all, or some with f + 1 votes that attest the sender to the others.
   */
  signatures: 'everyone' | 'sharded';
  validators: {
    /**
     * BLS12-381, compressed: signs headers.
     */
    blsKey: `0x${string}`;
    /**
     * 32 bytes.
     */
    consensusKey: `0x${string}`;
    feeAddress: Address;
    index: Quantity;
    /**
     * 32 bytes.
     */
    networkKey: `0x${string}`;
    /**
     * A hexadecimal number without leading zeros.
     */
    votes: `0x${string}`;
  }[];
}
export interface ValuesByAccount {
  [k: string]: Bytes32[];
}

/** Every method by its name. */
export interface Methods {
  /** Name and version of the node's software. */
  web3_clientVersion: { parameters: []; result: Text };
  /** Keccak-256 hash of the data. */
  web3_sha3: { parameters: [data: Bytes]; result: Hash };
  /** Chain id in decimal digits. */
  net_version: { parameters: []; result: Text };
  /** Always true. */
  net_listening: { parameters: []; result: Boolean };
  /** Number of connected peers. */
  net_peerCount: { parameters: []; result: Quantity };
  /** This document: the methods that this node serves, in OpenRPC format. */
  rpc_discover: { parameters: []; result: OpenRpc };
  /** Namespaces that this node serves, each with its version. */
  rpc_modules: { parameters: []; result: Modules };
  /** Chain id. */
  eth_chainId: { parameters: []; result: Quantity };
  /** Progress of synchronization; false at the head of the chain. */
  eth_syncing: { parameters: []; result: SyncProgress | Boolean };
  /** Accounts for which the node signs: the funded accounts of a development chain; empty on other chains. */
  eth_accounts: { parameters: []; result: Address[] };
  /** Number of the newest block. */
  eth_blockNumber: { parameters: []; result: Quantity };
  /** Balance of an account in wei. */
  eth_getBalance: { parameters: [account: Address, block?: BlockId]; result: Quantity };
  /** Next nonce of an account. `pending` includes transactions in the pool. */
  eth_getTransactionCount: { parameters: [account: Address, block?: BlockId]; result: Quantity };
  /** Code of an account, exactly as it was deployed. */
  eth_getCode: { parameters: [account: Address, block?: BlockId]; result: Bytes };
  /** Value of a storage slot: 32 bytes. */
  eth_getStorageAt: { parameters: [account: Address, slot: Slot, block?: BlockId]; result: Bytes32 };
  /** Values of at most 1,024 storage slots of several accounts. */
  eth_getStorageValues: { parameters: [slots: SlotsByAccount, block?: BlockId]; result: ValuesByAccount };
  /** Values of an account and of at most 1,024 of its slots, with proofs against the state root in the block's header. Proofs are paths of this chain's own tree; `corniche_types::proof` verifies them. Available for the newest 256 blocks. */
  eth_getProof: { parameters: [account: Address, slots: Slot[], block?: BlockId]; result: AccountProof };
  /** Executes a call on the state of a block and returns its output. Creates no transaction. */
  eth_call: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: Bytes };
  /** Gas limit with which a transaction succeeds. */
  eth_estimateGas: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: Quantity };
  /** Access list (EIP-2930) of everything that a call accesses, and the gas used with this list. */
  eth_createAccessList: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: AccessListResult };
  /** Simulates blocks of calls on top of an existing block. Each block starts from the state after the previous one. */
  eth_simulateV1: { parameters: [blocks: Simulation, block?: BlockId]; result: SimulatedBlock[] };
  /** Suggested gas price for transactions of type 0 and 1: base fee plus a tip, in wei. */
  eth_gasPrice: { parameters: []; result: Quantity };
  /** Base fee of the next block, in wei per gas. */
  eth_baseFee: { parameters: []; result: Quantity };
  /** Suggested tip in wei per gas, from recent blocks. */
  eth_maxPriorityFeePerGas: { parameters: []; result: Quantity };
  /** Base fees, gas used ratios and tips of recent blocks. */
  eth_feeHistory: { parameters: [count: Count, newest?: BlockId, percentiles?: Numbers]; result: FeeHistory };
  /** Signs a transaction of a node's account, or accepts one of an impersonated account, and adds it to the pool. Missing fields are filled in. Development chains only. */
  eth_sendTransaction: { parameters: [transaction: Call]; result: Hash };
  /** Adds a signed transaction to the pool and returns its hash. */
  eth_sendRawTransaction: { parameters: [transaction: Bytes]; result: Hash };
  /** Adds a signed transaction to the pool and waits for its receipt (EIP-7966). The timeout is in milliseconds: 2,000 by default, 20,000 at most. */
  eth_sendRawTransactionSync: { parameters: [transaction: Bytes, timeout?: Count]; result: Receipt };
  /** Transaction of a block or of the pool; null if unknown. */
  eth_getTransactionByHash: { parameters: [hash: Hash]; result: Transaction | null };
  /** Transaction by its position in a block; null if there is none. */
  eth_getTransactionByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: Transaction | null };
  /** Transaction by its position in a block; null if there is none. */
  eth_getTransactionByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: Transaction | null };
  /** Signed encoding (EIP-2718) of a transaction of a block or of the pool; empty if unknown, as in geth. */
  eth_getRawTransactionByHash: { parameters: [hash: Hash]; result: Bytes };
  /** Signed encoding (EIP-2718) of a transaction by its position in a block; empty if there is none. */
  eth_getRawTransactionByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: Bytes };
  /** Signed encoding (EIP-2718) of a transaction by its position in a block; empty if there is none. */
  eth_getRawTransactionByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: Bytes };
  /** Receipt of an executed transaction; null if it was not executed. */
  eth_getTransactionReceipt: { parameters: [hash: Hash]; result: Receipt | null };
  /** Block with the hashes of its transactions, or with `full` the transactions; null if unknown. */
  eth_getBlockByNumber: { parameters: [block: BlockName, full?: Boolean]; result: Block | null };
  /** Block with the hashes of its transactions, or with `full` the transactions; null if unknown. */
  eth_getBlockByHash: { parameters: [block: Hash, full?: Boolean]; result: Block | null };
  /** Receipts of a block's transactions, in order; null if the block is unknown. */
  eth_getBlockReceipts: { parameters: [block: BlockId]; result: Receipt[] | null };
  /** Number of transactions in a block; null if the block is unknown. */
  eth_getBlockTransactionCountByNumber: { parameters: [block: BlockName]; result: Quantity | null };
  /** Number of transactions in a block; null if the block is unknown. */
  eth_getBlockTransactionCountByHash: { parameters: [block: Hash]; result: Quantity | null };
  /** Always 0, because there are no uncles; null if the block is unknown. */
  eth_getUncleCountByBlockNumber: { parameters: [block: BlockName]; result: Quantity | null };
  /** Always 0, because there are no uncles; null if the block is unknown. */
  eth_getUncleCountByBlockHash: { parameters: [block: Hash]; result: Quantity | null };
  /** Always null, because there are no uncles. */
  eth_getUncleByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: null };
  /** Always null, because there are no uncles. */
  eth_getUncleByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: null };
  /** Logs of a range of blocks, filtered by address and topics. */
  eth_getLogs: { parameters: [filter: LogFilter]; result: Log[] };
  /** Creates a filter for logs; see eth_getFilterChanges. */
  eth_newFilter: { parameters: [filter: LogFilter]; result: Quantity };
  /** Creates a filter for the hashes of new blocks; see eth_getFilterChanges. */
  eth_newBlockFilter: { parameters: []; result: Quantity };
  /** Creates a filter for transactions that enter the pool: their hashes, or with `full` the transactions. */
  eth_newPendingTransactionFilter: { parameters: [full?: Boolean]; result: Quantity };
  /** Returns the new items of a filter since its last poll. A filter expires after five minutes without a poll. */
  eth_getFilterChanges: { parameters: [filter: Quantity]; result: Hash[] | Log[] | Transaction[] };
  /** Returns all logs that match a log filter. */
  eth_getFilterLogs: { parameters: [filter: Quantity]; result: Log[] };
  /** Removes a filter; false if it did not exist. */
  eth_uninstallFilter: { parameters: [filter: Quantity]; result: Boolean };
  /** WebSocket only: subscribes to new events and returns the subscription's id. The second parameter of `logs` is a filter, that of `newPendingTransactions` is true for full transactions. `syncing` and `corniche_dag` first send the current state. `corniche_dag` sends the validator's newest round when `corniche_getDag` has new data, at most ten times per second. `epochs` sends each epoch that begins, as `corniche_getEpoch` does. */
  eth_subscribe: { parameters: [topic: Topic, how?: LogFilter | Boolean]; result: Quantity };
  /** Ends a subscription. */
  eth_unsubscribe: { parameters: [subscription: Quantity]; result: Boolean };
  /** Number of pool transactions that can be executed now, and number that wait for an earlier nonce. */
  txpool_status: { parameters: []; result: PoolStatus };
  /** Transactions in the pool, by sender and nonce. An error if they exceed the size limit of a response. */
  txpool_content: { parameters: []; result: PoolContent };
  /** Transactions of one sender in the pool, by nonce. */
  txpool_contentFrom: { parameters: [sender: Address]; result: PoolContentFrom };
  /** Text summary of the transactions in the pool, one line each, by sender and nonce. */
  txpool_inspect: { parameters: []; result: PoolLines };
  /** RLP encoding of a block's header; its keccak-256 is the block's hash. */
  debug_getRawHeader: { parameters: [block: BlockId]; result: Bytes };
  /** RLP encoding of a block: header, transactions and an empty list of uncles. */
  debug_getRawBlock: { parameters: [block: BlockId]; result: Bytes };
  /** Encoded receipts of a block, as hashed into the header's receipts root. */
  debug_getRawReceipts: { parameters: [block: BlockId]; result: Bytes[] };
  /** Signed encoding (EIP-2718) of a transaction of a block or of the pool; empty if unknown. */
  debug_getRawTransaction: { parameters: [hash: Hash]; result: Bytes };
  /** Trace of a transaction, by executing its block again. The state before the block must still be available. */
  debug_traceTransaction: { parameters: [hash: Hash, tracer?: Tracer]; result: Trace };
  /** Traces of a block's transactions, by executing the block again. The state before the block must still be available. */
  debug_traceBlockByNumber: { parameters: [block: BlockName, tracer?: Tracer]; result: TracedTransaction[] };
  /** Traces of a block's transactions, by executing the block again. The state before the block must still be available. */
  debug_traceBlockByHash: { parameters: [block: Hash, tracer?: Tracer]; result: TracedTransaction[] };
  /** Trace of a simulated call. */
  debug_traceCall: { parameters: [call: Call, block?: BlockId, tracer?: Tracer]; result: Trace };
  /** API level of Otterscan's methods: 8. */
  ots_getApiLevel: { parameters: []; result: PlainNumber };
  /** True if the account has code. */
  ots_hasCode: { parameters: [account: Address, block?: BlockId]; result: Boolean };
  /** Return data of a failed transaction; empty if it succeeded. */
  ots_getTransactionError: { parameters: [hash: Hash]; result: Bytes };
  /** Calls of a transaction in execution order, by executing its block again. */
  ots_traceTransaction: { parameters: [hash: Hash]; result: OtsCall[] };
  /** Value transfers and contract creations inside a transaction. */
  ots_getInternalOperations: { parameters: [hash: Hash]; result: OtsOperation[] };
  /** Block without its transactions, and their total fees; null if unknown. */
  ots_getBlockDetails: { parameters: [block: BlockName | PlainNumber]; result: OtsBlockDetails | null };
  /** Block without its transactions, and their total fees; null if unknown. */
  ots_getBlockDetailsByHash: { parameters: [block: Hash]; result: OtsBlockDetails | null };
  /** A page of a block's transactions, counted from the end of the block. Inputs are cut to their first bytes, receipts have no logs. */
  ots_getBlockTransactions: { parameters: [block: BlockName | PlainNumber, page: Count, size: Count]; result: OtsBlockTransactions | null };
  /** Transactions before a block (0: all blocks) of an account: as sender, recipient, created contract or emitter of a log. The search takes at most five seconds. */
  ots_searchTransactionsBefore: { parameters: [account: Address, block: Count, size: Count]; result: OtsPage };
  /** Transactions after a block of an account: as sender, recipient, created contract or emitter of a log. The search takes at most five seconds. */
  ots_searchTransactionsAfter: { parameters: [account: Address, block: Count, size: Count]; result: OtsPage };
  /** Hash of an account's transaction with this nonce; null if there is none. Blocks whose states are not kept are searched for at most five seconds. */
  ots_getTransactionBySenderAndNonce: { parameters: [sender: Address, nonce: Count]; result: Hash | null };
  /** Creator of a contract, and the transaction that created it; null for accounts without code and for contracts of the genesis. A contract created by another contract is found only among blocks whose states are kept. */
  ots_getContractCreator: { parameters: [account: Address]; result: OtsCreator | null };
  /** Mines blocks (default 1), with this timestamp if one is given. Returns 0. */
  evm_mine: { parameters: [how?: Count | MineOptions]; result: Quantity };
  /** Advances the clock by this number of seconds, from the next block on. Returns the total advance in seconds. */
  evm_increaseTime: { parameters: [seconds: Count]; result: Count };
  /** Sets the timestamp of the next block in Unix seconds. The clock continues from there. */
  evm_setNextBlockTimestamp: { parameters: [timestamp: Count]; result: Count };
  /** Takes a snapshot of the chain for evm_revert: blocks, clock and pool. Waits until executable transactions sent before are in a block. Returns the snapshot's id. */
  evm_snapshot: { parameters: []; result: Quantity };
  /** Reverts blocks, clock and pool to a snapshot, and removes this snapshot and all later ones; false if it does not exist. */
  evm_revert: { parameters: [snapshot: Quantity]; result: Boolean };
  /** Turns automatic mining on or off: new transactions trigger blocks. */
  evm_setAutomine: { parameters: [automine: Boolean]; result: Boolean };
  /** Mines a block at this interval in milliseconds; 0 turns it off. */
  evm_setIntervalMining: { parameters: [ms: Count]; result: Boolean };
  /** True if automatic mining is on. */
  hardhat_getAutomine: { parameters: []; result: Boolean };
  /** Mines blocks (default 1) with this interval between their timestamps in seconds (default 1). */
  hardhat_mine: { parameters: [blocks?: Count, apart?: Count]; result: Boolean };
  /** Sets the balance of an account in wei, in a separate block. */
  hardhat_setBalance: { parameters: [account: Address, wei: Quantity]; result: Boolean };
  /** Sets the next nonce of an account, in a separate block. */
  hardhat_setNonce: { parameters: [account: Address, nonce: Quantity]; result: Boolean };
  /** Sets the code of an account, WebAssembly or empty, in a separate block. */
  hardhat_setCode: { parameters: [account: Address, code: Bytes]; result: Boolean };
  /** Sets the value of a storage slot, in a separate block. */
  hardhat_setStorageAt: { parameters: [account: Address, slot: Slot, value: Slot]; result: Boolean };
  /** Lets `eth_sendTransaction` send transactions of this account without its key. The account may be a contract. */
  hardhat_impersonateAccount: { parameters: [account: Address]; result: Boolean };
  /** Stops the impersonation of this account. */
  hardhat_stopImpersonatingAccount: { parameters: [account: Address]; result: Boolean };
  /** Resets the chain to its genesis. Removes snapshots, impersonations and the pool. Forking another chain is not supported. */
  hardhat_reset: { parameters: [how?: ResetOptions]; result: Boolean };
  /** Sets the base fee of the next block in wei per gas. Blocks of setters do not count as next. */
  hardhat_setNextBlockBaseFeePerGas: { parameters: [wei: Count]; result: Boolean };
  /** Sets the randomness that transactions of the next block read. Blocks of setters do not count as next. */
  hardhat_setPrevRandao: { parameters: [randomness: Slot]; result: Boolean };
  /** Removes a transaction from the pool; false if it is not in the pool, an error if it is in a block. */
  hardhat_dropTransaction: { parameters: [hash: Hash]; result: Boolean };
  /** Software, chain id, instance and newest block of this node. */
  hardhat_metadata: { parameters: []; result: HardhatMetadata };
  /** True if automatic mining is on. */
  anvil_getAutomine: { parameters: []; result: Boolean };
  /** Mines blocks (default 1) with this interval between their timestamps in seconds (default 1). */
  anvil_mine: { parameters: [blocks?: Count, apart?: Count]; result: null };
  /** Sets the balance of an account in wei, in a separate block. */
  anvil_setBalance: { parameters: [account: Address, wei: Quantity]; result: null };
  /** Sets the next nonce of an account, in a separate block. */
  anvil_setNonce: { parameters: [account: Address, nonce: Quantity]; result: null };
  /** Sets the code of an account, WebAssembly or empty, in a separate block. */
  anvil_setCode: { parameters: [account: Address, code: Bytes]; result: null };
  /** Sets the value of a storage slot, in a separate block. */
  anvil_setStorageAt: { parameters: [account: Address, slot: Slot, value: Slot]; result: null };
  /** Lets `eth_sendTransaction` send transactions of this account without its key. The account may be a contract. */
  anvil_impersonateAccount: { parameters: [account: Address]; result: null };
  /** Stops the impersonation of this account. */
  anvil_stopImpersonatingAccount: { parameters: [account: Address]; result: null };
  /** Resets the chain to its genesis. Removes snapshots, impersonations and the pool. Forking another chain is not supported. */
  anvil_reset: { parameters: [how?: ResetOptions]; result: null };
  /** Sets the base fee of the next block in wei per gas. Blocks of setters do not count as next. */
  anvil_setNextBlockBaseFeePerGas: { parameters: [wei: Count]; result: null };
  /** Removes a transaction from the pool and returns its hash; null if it is not in the pool. */
  anvil_dropTransaction: { parameters: [hash: Hash]; result: Hash | null };
  /** Removes all transactions from the pool. */
  anvil_dropAllTransactions: { parameters: []; result: null };
  /** Removes an account's transactions from the pool. */
  anvil_removePoolTransactions: { parameters: [account: Address]; result: null };
  /** Newest block, gas limit, base fee of the next block, and suggested gas price. */
  anvil_nodeInfo: { parameters: []; result: AnvilNodeInfo };
  /** Ordering record of a block, with its skipped transactions; null for the genesis block. */
  corniche_getOrdering: { parameters: [block?: BlockId]; result: Ordering | null };
  /** Certificate that proves that a block is final; it may be that of a later block. Null if there is none yet. */
  corniche_getCertificate: { parameters: [block?: BlockId]; result: Certificate | null };
  /** Proofs of the committees after this epoch and the following ones, for clients that check certificates: at most 64, by default all that are left. Empty if the epoch has not ended. */
  corniche_getEpochChanges: { parameters: [epoch: Quantity, count?: Quantity]; result: EpochChange[] };
  /** An epoch: its blocks, times, committee and protocol version. Null if it has not begun, or if this node does not know its beginning. */
  corniche_getEpoch: { parameters: [epoch: EpochId]; result: EpochInfo | null };
  /** Committee of the running or of a past epoch. A node keeps only BLS keys and votes of past ones. Null if the epoch has not begun, or if this node does not have its committee. */
  corniche_getCommittee: { parameters: [epoch: EpochId]; result: CommitteeInfo | null };
  /** Status of a transaction, with its times; null if unknown. */
  corniche_getTransactionStatus: { parameters: [hash: Hash]; result: TransactionStatus | null };
  /** Newest executed block and newest certified block. */
  corniche_getHeads: { parameters: []; result: Heads };
  /** The committee: validators with their keys, and the number of signatures in a certificate. */
  corniche_getValidators: { parameters: []; result: Validators };
  /** Stake after a block: the running epoch, and all validators with stake, votes, keys and endpoints. Null on chains without staking. */
  corniche_getStaking: { parameters: [block?: BlockId]; result: Staking | null };
  /** Convictions for what validators signed in this epoch and later ones. The state has those of the newest 64 epochs. A response ends after the epoch with the 300th conviction; `next` is the epoch from which to continue. Null on chains without staking. */
  corniche_getOffences: { parameters: [epoch: Quantity]; result: Offences | null };
  /** Blocks of this node and its snapshots: where it began, and whether it follows. */
  corniche_getSyncStatus: { parameters: []; result: SyncStatus };
  /** This node and its connected peers: version, validator, round-trip time. Network addresses are not included. */
  corniche_getPeers: { parameters: []; result: Peers };
  /** Execution statistics since this node started: executions, re-executions, and results that were ready when ordered. */
  corniche_getStatistics: { parameters: []; result: Statistics };
  /** Execution statistics of a block on this node: lanes, re-executions, duration. They are not part of consensus. Null for blocks older than the newest 1,024 (fewer if they are large), and for blocks from before the node started. */
  corniche_getExecution: { parameters: [block?: BlockId]; result: Execution | null };
  /** Shards with their replicas, gateways, and counts of this gateway. Null on chains without shards. */
  corniche_getShards: { parameters: []; result: Shards | null };
  /** Number of the shard with this account and its storage. Null on chains without shards. */
  corniche_getShard: { parameters: [account: Address]; result: Quantity | null };
  /** Way of a committed transaction over the shards: timestamp, dependencies, attempts, recovery. Null if it is unknown, and on chains without shards. */
  corniche_getShardedTransaction: { parameters: [hash: Hash]; result: ShardedTransaction | null };
  /** Signatures of replicas of all shards that prove a block's transactions. Null if there are none yet, and on chains without shards. */
  corniche_getShardCertificate: { parameters: [block?: BlockId]; result: ShardCertificate | null };
  /** Recent consensus DAG of a validator. Parameters: first and last round, or `latest` and the number of rounds. */
  corniche_getDag: { parameters: [first: FirstRound, last: Quantity]; result: Dag };
}

/** The parameters of a method and its result, for a function of your own: `call<M extends Method>(method: M, ...parameters: Methods[M]['parameters'])`. */
export type Method = keyof Methods;

/** As a schema for viem: `createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), … })`. */
export type RpcSchema = { [M in Method]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] } }[Method][];
