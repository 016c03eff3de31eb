// Made from the document that a node serves as rpc_discover: `npm run types` in sdk/js.
/* eslint-disable */

/**
 * An account: 20 bytes.
 */
export type Address = `0x${string}`;
/**
 * 32 bytes.
 */
export type Bytes32 = `0x${string}`;
/**
 * What a transaction declares beforehand that it will touch (EIP-2930).
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
 * Siblings along the path of a key, from the root down, 32 bytes each, and last what the path ends at: 00, nothing; 01 and the value; 02, another key and its value's hash.
 */
export type TreePath = Bytes[];
/**
 * A number in hexadecimal digits, without leading zeros.
 */
export type Quantity = `0x${string}`;
/**
 * Where in a contract's storage: up to 32 bytes.
 */
export type Slot = `0x${string}`;
/**
 * 32 bytes.
 */
export type Hash = `0x${string}`;
/**
 * A number in decimal digits, without quotes.
 */
export type PlainNumber = number;
export type Block = Header & {
  transactions: Hash[] | Transaction[];
  uncles: Hash[];
};
/**
 * A block by its name, number or hash, also as EIP-1898 writes it. Without it: `latest`.
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
 * A block by its number or by what it is: `latest` is the newest executed one, `safe` and `finalized` the newest certified one.
 */
export type BlockName = Quantity | ('earliest' | 'finalized' | 'safe' | 'latest' | 'pending');
export type Boolean = boolean;
export type Text = string;
/**
 * A small number, in hexadecimal digits or as it is.
 */
export type Count = Quantity | number;
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
     * A number in hexadecimal digits, without leading zeros.
     */
    status: `0x${string}`;
  }[];
};
export type Topic = 'newHeads' | 'logs' | 'newPendingTransactions' | 'syncing' | 'corniche_dag';
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
  Count: Count;
  Dag: Dag;
  Execution: Execution;
  FeeHistory: FeeHistory;
  FirstRound: FirstRound;
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
  SimulatedBlock: SimulatedBlock;
  Simulation: Simulation;
  Slot: Slot;
  SlotProof: SlotProof;
  Slots: Slots;
  SlotsByAccount: SlotsByAccount;
  StateOverrides: StateOverrides;
  Statistics: Statistics;
  SyncProgress: SyncProgress;
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
   * Why that call fails, if it does.
   */
  error?: string;
  /**
   * By a call with this list.
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
     * A number in hexadecimal digits, without leading zeros.
     */
    baseFee: `0x${string}`;
    chainId: PlainNumber;
    gasLimit: Quantity;
    /**
     * A number in hexadecimal digits, without leading zeros.
     */
    gasPrice: `0x${string}`;
  };
  /**
   * No chain is forked.
   */
  forkConfig: {
    forkBlockNumber: null;
    forkRetryBackoff: null;
    forkUrl: null;
  };
  /**
   * The newest of Ethereum's forks whose transactions are taken, all types of them.
   */
  hardFork: 'shanghai';
  /**
   * Who pays more comes first.
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
   * An account: 20 bytes.
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
   * A number in hexadecimal digits, without leading zeros.
   */
  timestamp: `0x${string}`;
  totalDifficulty?: Quantity;
  transactionsRoot: Hash;
}
export interface Transaction {
  accessList?: AccessList;
  /**
   * Null while it waits.
   */
  blockHash: Hash | null;
  blockNumber: Quantity | null;
  blockTimestamp?: Quantity | null;
  chainId?: Quantity;
  from: Address;
  gas: Quantity;
  /**
   * A number in hexadecimal digits, without leading zeros.
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
   * Null creates a contract.
   */
  to?: Address | null;
  transactionIndex: Quantity | null;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  type: `0x${string}`;
  v: Quantity;
  value: Quantity;
  yParity?: Quantity;
}
/**
 * What is supposed of a block.
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
 * A transaction to try out; every field may be left out. `input` and `data` are the same.
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
     * A number in hexadecimal digits, without leading zeros.
     */
    position: `0x${string}`;
    topics: Bytes32[];
  }[];
  output?: Bytes;
  revertReason?: Text;
  /**
   * An account: 20 bytes.
   */
  to?: `0x${string}`;
  type: 'CALL' | 'STATICCALL' | 'DELEGATECALL' | 'CREATE' | 'CREATE2';
  value?: Quantity;
}
export interface Certificate {
  blockHash: Hash;
  /**
   * A number in hexadecimal digits, without leading zeros.
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
export interface Dag {
  dropped: Quantity;
  fromRound: Quantity;
  newestRound: Quantity;
  order: Hash[];
  slots: {
    /**
     * A number in hexadecimal digits, without leading zeros.
     */
    commit?: `0x${string}`;
    /**
     * Under Autobahn: who confirmed the votes in the second step of the slow way; absent for the fast way.
     */
    confirmers?: Quantity[];
    decidedMs?: Quantity;
    digest?: Hash;
    rank: Quantity;
    round: Quantity;
    status: 'committed' | 'skipped' | 'undecided';
    validator: Quantity;
    /**
     * Under Autobahn: whose votes for the cut are in its certificate; absent where only the second step of the slow way was seen.
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
     * Under Autobahn: who signed that they hold it and all below it in its lane; absent while no such proof is known.
     */
    holders?: Quantity[];
    parents: Hash[];
    proposedMs?: Quantity;
    round: Quantity;
  }[];
}
/**
 * What running a block took on this node, in this run of it. No fact of the chain.
 */
export interface Execution {
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  adopted: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
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
   * A number in hexadecimal digits, without leading zeros.
   */
  runs: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  runsAgain: `0x${string}`;
  /**
   * Data of any length.
   */
  runsOf: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  threads: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  waits: `0x${string}`;
}
export interface FeeHistory {
  baseFeePerBlobGas?: Quantity[];
  /**
   * One more than blocks: the last is the next block's.
   */
  baseFeePerGas: Quantity[];
  blobGasUsedRatio?: number[];
  gasUsedRatio: number[];
  oldestBlock: Quantity;
  reward?: Quantity[][];
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
   * A number in hexadecimal digits, without leading zeros.
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
   * Blocks are never taken back.
   */
  removed: false;
  topics: Bytes32[];
  transactionHash: Hash;
  transactionIndex: Quantity;
}
/**
 * A range of blocks or one block's hash; addresses and, by position, topics, any of which may match.
 */
export interface LogFilter {
  address?: Address | Address[] | null;
  blockHash?: Hash;
  fromBlock?: BlockName;
  toBlock?: BlockName;
  topics?: (Bytes32 | Bytes32[] | null)[];
}
/**
 * When, and how many.
 */
export interface MineOptions {
  blocks?: Count;
  timestamp?: Count;
}
/**
 * Version by namespace.
 */
export interface Modules {
  [k: string]: string;
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
  engine: string;
  epoch: Quantity;
  firstCommit: Quantity;
  lastCommit: Quantity;
  lastCommitConsumed: Quantity;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  leader: `0x${string}`;
  nextCommitteeHash: Hash;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  protocolVersion: `0x${string}`;
  randomness: Hash;
  resumeHash: Hash;
  /**
   * Transactions that were ordered and not executed.
   */
  skipped: {
    hash: Hash;
    position: Quantity;
    reason: string;
  }[];
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  timestampMs: `0x${string}`;
  transactionsHash: Hash;
}
/**
 * A block with the number of its transactions and without its bloom; what else a block has is there too.
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
   * A number in hexadecimal digits, without leading zeros.
   */
  totalFees: `0x${string}`;
}
export interface OtsBlockTransactions {
  fullblock: OtsBlock;
  receipts: OtsReceipt[];
}
/**
 * A receipt, which comes without its logs where a whole block is told; what else a receipt has is there too.
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
   * A number in decimal digits, without quotes.
   */
  timestamp: number;
  to: Address | null;
  transactionHash: Hash;
}
export interface OtsCall {
  /**
   * A number in decimal digits, without quotes.
   */
  depth: number;
  from: Address;
  input: Bytes;
  output: Bytes;
  to: Address;
  type: 'CALL' | 'STATICCALL' | 'DELEGATECALL' | 'CREATE' | 'CREATE2';
  /**
   * Null where no wei can move.
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
   * 0: wei moved; 2 and 3: a contract was made, by create and create2.
   */
  type: 0 | 2 | 3;
  value: Quantity;
}
/**
 * The newest first. All that a block has is on one page, so it may be more than was asked for.
 */
export interface OtsPage {
  /**
   * Nothing is newer.
   */
  firstPage: boolean;
  /**
   * Nothing is older.
   */
  lastPage: boolean;
  receipts: OtsReceipt[];
  txs: Transaction[];
}
export interface Peer {
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  connectedMs?: `0x${string}`;
  /**
   * An account: 20 bytes.
   */
  feeAddress?: `0x${string}`;
  /**
   * 32 bytes.
   */
  networkKey: `0x${string}`;
  /**
   * The network key as libp2p writes it.
   */
  peerId: string;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  roundTripUs?: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  validator?: `0x${string}`;
  /**
   * What its software calls itself, its own word: at most 64 characters of printable ASCII.
   */
  version?: string;
}
export interface Peers {
  /**
   * The node that was asked; null for one that has no name among peers.
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
 * By nonce in decimal digits.
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
 * Accounts as a run found them.
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
 * Accounts that a run changed: as it found them, and what of them is new.
 */
export interface PrestateDifference {
  post: Prestate;
  pre: Prestate;
}
export interface Receipt {
  blockHash: Hash;
  blockNumber: Quantity;
  /**
   * Of the contract that it created.
   */
  contractAddress: Address | null;
  cumulativeGasUsed: Quantity;
  effectiveGasPrice: Quantity;
  from: Address;
  gasUsed: Quantity;
  logs: Log[];
  logsBloom: `0x${string}`;
  /**
   * 0x1: it succeeded.
   */
  status: '0x0' | '0x1';
  to: Address | null;
  transactionHash: Hash;
  transactionIndex: Quantity;
  type: Quantity;
}
/**
 * What to begin with; here it is always the genesis.
 */
export interface ResetOptions {
  /**
   * Not of a chain: without jsonRpcUrl.
   */
  forking?: {};
}
/**
 * At most 256 blocks, those between the numbers that are named included.
 */
export interface Simulation {
  blockStateCalls: {
    blockOverrides?: BlockOverrides;
    calls?: Call[];
    stateOverrides?: StateOverrides;
  }[];
  returnFullTransactions?: Boolean;
  /**
   * Whether wei that moves is logged, as ERC-20's Transfer by 0xeeee…ee.
   */
  traceTransfers?: boolean;
  /**
   * Whether nonces and fees have to be right.
   */
  validation?: boolean;
}
/**
 * By account, what is supposed of it. `state` replaces its storage, `stateDiff` only what it names.
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
 * Counts since the node started; poolTransactions is now.
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
export interface TracedTransaction {
  result: Trace;
  txHash: Hash;
}
/**
 * The first two of its settings are callTracer's, the others prestateTracer's. Of a call, suppositions may stand beside them.
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
   * A number in hexadecimal digits, without leading zeros.
   */
  leftMs?: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  orderedMs?: `0x${string}`;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  receivedMs?: `0x${string}`;
}
export interface Validators {
  committeeHash: Hash;
  engine: string;
  epoch: Quantity;
  /**
   * A number in hexadecimal digits, without leading zeros.
   */
  quorum: `0x${string}`;
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
  }[];
}
export interface ValuesByAccount {
  [k: string]: Bytes32[];
}

/** Every method by its name. */
export interface Methods {
  /** What this node calls itself. */
  web3_clientVersion: { parameters: []; result: Text };
  /** Keccak-256 of the data. */
  web3_sha3: { parameters: [data: Bytes]; result: Hash };
  /** The chain id in decimal digits. */
  net_version: { parameters: []; result: Text };
  /** Always true. */
  net_listening: { parameters: []; result: Boolean };
  /** Peers this node is connected to. */
  net_peerCount: { parameters: []; result: Quantity };
  /** This document: the methods that this node serves, in the words of OpenRPC. */
  rpc_discover: { parameters: []; result: OpenRpc };
  /** The namespaces that this node serves, each with a version. */
  rpc_modules: { parameters: []; result: Modules };
  /** The chain id. */
  eth_chainId: { parameters: []; result: Quantity };
  /** How far catching up has come; false at the head of the chain. */
  eth_syncing: { parameters: []; result: SyncProgress | Boolean };
  /** Whose transactions the node signs: the funded ones of a development chain, elsewhere none. */
  eth_accounts: { parameters: []; result: Address[] };
  /** Number of the newest block. */
  eth_blockNumber: { parameters: []; result: Quantity };
  /** What an account owns, in wei. */
  eth_getBalance: { parameters: [account: Address, block?: BlockId]; result: Quantity };
  /** An account's next nonce. `pending` counts what waits in the pool. */
  eth_getTransactionCount: { parameters: [account: Address, block?: BlockId]; result: Quantity };
  /** An account's code exactly as it was deployed. */
  eth_getCode: { parameters: [account: Address, block?: BlockId]; result: Bytes };
  /** 32 bytes of a contract's storage. */
  eth_getStorageAt: { parameters: [account: Address, slot: Slot, block?: BlockId]; result: Bytes32 };
  /** Values of storage slots of several accounts at once, at most 1,024. */
  eth_getStorageValues: { parameters: [slots: SlotsByAccount, block?: BlockId]; result: ValuesByAccount };
  /** What an account and at most 1,024 of its slots hold, with what shows it to whoever has the block's header: paths of this chain's own tree, checked by `corniche_types::proof`. For the newest 256 blocks. */
  eth_getProof: { parameters: [account: Address, slots: Slot[], block?: BlockId]; result: AccountProof };
  /** Runs a call on a state and answers what it returns. */
  eth_call: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: Bytes };
  /** A gas limit with which a transaction succeeds. */
  eth_estimateGas: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: Quantity };
  /** What a call would have to declare so that nothing it reaches is cold, and the gas that it uses then. */
  eth_createAccessList: { parameters: [call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides]; result: AccessListResult };
  /** Runs blocks of calls, each on the state that the one before left, on top of a block that is there. */
  eth_simulateV1: { parameters: [blocks: Simulation, block?: BlockId]; result: SimulatedBlock[] };
  /** Base fee and a tip: the price for a transaction of type 0 or 1. */
  eth_gasPrice: { parameters: []; result: Quantity };
  /** Wei per gas in the next block. */
  eth_baseFee: { parameters: []; result: Quantity };
  /** A tip that recent blocks paid. */
  eth_maxPriorityFeePerGas: { parameters: []; result: Quantity };
  /** Base fees, fullness and tips of recent blocks. */
  eth_feeHistory: { parameters: [count: Count, newest?: BlockId, percentiles?: Numbers]; result: FeeHistory };
  /** Signs a transaction of one of the accounts, or takes one of an impersonated account, and hands it to the pool. What is left out is filled in. Development chains only. */
  eth_sendTransaction: { parameters: [transaction: Call]; result: Hash };
  /** Hands a signed transaction to the pool. */
  eth_sendRawTransaction: { parameters: [transaction: Bytes]; result: Hash };
  /** The same, answered with the receipt. It waits for so many milliseconds: 2,000 unless said otherwise, 20,000 at most (EIP-7966). */
  eth_sendRawTransactionSync: { parameters: [transaction: Bytes, timeout?: Count]; result: Receipt };
  /** A transaction of a block or of the pool. */
  eth_getTransactionByHash: { parameters: [hash: Hash]; result: Transaction | null };
  /** A transaction by its place in a block. */
  eth_getTransactionByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: Transaction | null };
  /** A transaction by its place in a block. */
  eth_getTransactionByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: Transaction | null };
  /** A transaction of a block or of the pool as it was signed (EIP-2718); empty when there is none, as geth answers. */
  eth_getRawTransactionByHash: { parameters: [hash: Hash]; result: Bytes };
  /** A transaction by its place in a block as it was signed; empty when there is none. */
  eth_getRawTransactionByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: Bytes };
  /** A transaction by its place in a block as it was signed; empty when there is none. */
  eth_getRawTransactionByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: Bytes };
  /** What became of an executed transaction. */
  eth_getTransactionReceipt: { parameters: [hash: Hash]; result: Receipt | null };
  /** A block with its transactions' hashes, or the transactions themselves. */
  eth_getBlockByNumber: { parameters: [block: BlockName, full?: Boolean]; result: Block | null };
  /** A block with its transactions' hashes, or the transactions themselves. */
  eth_getBlockByHash: { parameters: [block: Hash, full?: Boolean]; result: Block | null };
  /** The receipts of a block's transactions, in order. */
  eth_getBlockReceipts: { parameters: [block: BlockId]; result: Receipt[] | null };
  /** How many transactions a block holds. */
  eth_getBlockTransactionCountByNumber: { parameters: [block: BlockName]; result: Quantity | null };
  /** How many transactions a block holds. */
  eth_getBlockTransactionCountByHash: { parameters: [block: Hash]; result: Quantity | null };
  /** 0: there are no uncles. */
  eth_getUncleCountByBlockNumber: { parameters: [block: BlockName]; result: Quantity | null };
  /** 0: there are no uncles. */
  eth_getUncleCountByBlockHash: { parameters: [block: Hash]; result: Quantity | null };
  /** Null: there are no uncles. */
  eth_getUncleByBlockNumberAndIndex: { parameters: [block: BlockName, index: Count]; result: null };
  /** Null: there are no uncles. */
  eth_getUncleByBlockHashAndIndex: { parameters: [block: Hash, index: Count]; result: null };
  /** Logs of a range of blocks by address and topics. */
  eth_getLogs: { parameters: [filter: LogFilter]; result: Log[] };
  /** A filter for logs; see eth_getFilterChanges. */
  eth_newFilter: { parameters: [filter: LogFilter]; result: Quantity };
  /** A filter for new blocks. */
  eth_newBlockFilter: { parameters: []; result: Quantity };
  /** A filter for transactions that enter the pool: their hashes, or with `full` the transactions. */
  eth_newPendingTransactionFilter: { parameters: [full?: Boolean]; result: Quantity };
  /** What is new since the last time this was asked. A filter that nobody asks for is dropped after five minutes. */
  eth_getFilterChanges: { parameters: [filter: Quantity]; result: Hash[] | Log[] | Transaction[] };
  /** All that a filter for logs matches. */
  eth_getFilterLogs: { parameters: [filter: Quantity]; result: Log[] };
  /** Drops a filter; false when there was none. */
  eth_uninstallFilter: { parameters: [filter: Quantity]; result: Boolean };
  /** WebSocket only: tells what happens from now on. `logs` takes a filter, `newPendingTransactions` whether to tell them in full. `syncing` and `corniche_dag` begin with how it stands. `corniche_dag` tells a validator's newest round whenever `corniche_getDag` has more to show, ten times a second at most. */
  eth_subscribe: { parameters: [topic: Topic, how?: LogFilter | Boolean]; result: Quantity };
  /** Ends a subscription. */
  eth_unsubscribe: { parameters: [subscription: Quantity]; result: Boolean };
  /** How many transactions of the pool can be executed now, and how many wait for an earlier nonce. */
  txpool_status: { parameters: []; result: PoolStatus };
  /** The pool's transactions by sender and nonce. A pool too large for one answer is refused. */
  txpool_content: { parameters: []; result: PoolContent };
  /** One sender's transactions in the pool by nonce. */
  txpool_contentFrom: { parameters: [sender: Address]; result: PoolContentFrom };
  /** The pool's transactions by sender and nonce, a line for each. */
  txpool_inspect: { parameters: []; result: PoolLines };
  /** A header in RLP: its keccak-256 is the block's hash. */
  debug_getRawHeader: { parameters: [block: BlockId]; result: Bytes };
  /** A block in RLP: header, transactions and no uncles. */
  debug_getRawBlock: { parameters: [block: BlockId]; result: Bytes };
  /** The receipts of a block as they are hashed into the header's root. */
  debug_getRawReceipts: { parameters: [block: BlockId]; result: Bytes[] };
  /** A transaction of a block or of the pool as it was signed; empty when there is none. */
  debug_getRawTransaction: { parameters: [hash: Hash]; result: Bytes };
  /** What a transaction did on its way, found by running its block again. The state before it must still be held. */
  debug_traceTransaction: { parameters: [hash: Hash, tracer?: Tracer]; result: Trace };
  /** What the transactions of a block did on their way. */
  debug_traceBlockByNumber: { parameters: [block: BlockName, tracer?: Tracer]; result: TracedTransaction[] };
  /** What the transactions of a block did on their way. */
  debug_traceBlockByHash: { parameters: [block: Hash, tracer?: Tracer]; result: TracedTransaction[] };
  /** What a call would do on its way. */
  debug_traceCall: { parameters: [call: Call, block?: BlockId, tracer?: Tracer]; result: Trace };
  /** Which of Erigon's methods for Otterscan there are: 8. */
  ots_getApiLevel: { parameters: []; result: PlainNumber };
  /** Whether an account has code. */
  ots_hasCode: { parameters: [account: Address, block?: BlockId]; result: Boolean };
  /** What a failed transaction returned; empty if it did not fail. */
  ots_getTransactionError: { parameters: [hash: Hash]; result: Bytes };
  /** The calls of a transaction in the order in which they were made, found by running its block again. */
  ots_traceTransaction: { parameters: [hash: Hash]; result: OtsCall[] };
  /** Wei that moved and contracts that were made inside a transaction. */
  ots_getInternalOperations: { parameters: [hash: Hash]; result: OtsOperation[] };
  /** A block without its transactions, and the fees they paid. */
  ots_getBlockDetails: { parameters: [block: BlockName | PlainNumber]; result: OtsBlockDetails | null };
  /** A block without its transactions, and the fees they paid. */
  ots_getBlockDetailsByHash: { parameters: [block: Hash]; result: OtsBlockDetails | null };
  /** A page of a block's transactions, counted from the block's end, with the first bytes of their input; receipts come without logs. */
  ots_getBlockTransactions: { parameters: [block: BlockName | PlainNumber, page: Count, size: Count]; result: OtsBlockTransactions | null };
  /** Transactions before a block (0: all) that an account sent, was sent, was made by or logged in. Blocks are searched for five seconds. */
  ots_searchTransactionsBefore: { parameters: [account: Address, block: Count, size: Count]; result: OtsPage };
  /** The same after a block. */
  ots_searchTransactionsAfter: { parameters: [account: Address, block: Count, size: Count]; result: OtsPage };
  /** An account's transaction with this nonce. Where states are not kept any more, blocks are searched for five seconds. */
  ots_getTransactionBySenderAndNonce: { parameters: [sender: Address, nonce: Count]; result: Hash | null };
  /** Who made a contract, and by which transaction; null for what the genesis has. One made by a contract is found where states are kept. */
  ots_getContractCreator: { parameters: [account: Address]; result: OtsCreator | null };
  /** Makes a block, or so many, at this time if one is named. The answer is always 0. */
  evm_mine: { parameters: [how?: Count | MineOptions]; result: Quantity };
  /** Sets the clock ahead by so many seconds, from the next block on. The answer is by how many it was set ahead so far. */
  evm_increaseTime: { parameters: [seconds: Count]; result: Count };
  /** The next block has this time, and the clock goes on from there. */
  evm_setNextBlockTimestamp: { parameters: [timestamp: Count]; result: Count };
  /** Remembers the chain as it is, for evm_revert: blocks, clock and what waits in the pool. What was sent before is in a block first. */
  evm_snapshot: { parameters: []; result: Quantity };
  /** Goes back to a snapshot: blocks, clock and pool are as they were. It is used up, and so are later ones; false when there was none. */
  evm_revert: { parameters: [snapshot: Quantity]; result: Boolean };
  /** Whether transactions make blocks by themselves. */
  evm_setAutomine: { parameters: [automine: Boolean]; result: Boolean };
  /** Makes a block every so many milliseconds; 0: none. */
  evm_setIntervalMining: { parameters: [ms: Count]; result: Boolean };
  /** Whether transactions make blocks by themselves. */
  hardhat_getAutomine: { parameters: []; result: Boolean };
  /** Makes so many blocks, so many seconds apart (one where nothing is said). */
  hardhat_mine: { parameters: [blocks?: Count, apart?: Count]; result: Boolean };
  /** Sets what an account owns, in a block of its own. */
  hardhat_setBalance: { parameters: [account: Address, wei: Quantity]; result: Boolean };
  /** Sets an account's next nonce, in a block of its own. */
  hardhat_setNonce: { parameters: [account: Address, nonce: Quantity]; result: Boolean };
  /** Sets an account's code, which is WebAssembly or empty, in a block of its own. */
  hardhat_setCode: { parameters: [account: Address, code: Bytes]; result: Boolean };
  /** Sets 32 bytes of a contract's storage, in a block of its own. */
  hardhat_setStorageAt: { parameters: [account: Address, slot: Slot, value: Slot]; result: Boolean };
  /** From now on `eth_sendTransaction` takes transactions of this account, whose key nobody needs and which may be a contract. */
  hardhat_impersonateAccount: { parameters: [account: Address]; result: Boolean };
  /** Ends that. */
  hardhat_stopImpersonatingAccount: { parameters: [account: Address]; result: Boolean };
  /** Begins again at the genesis, as after a start: snapshots, impersonation and what waits are gone. A chain to fork is refused. */
  hardhat_reset: { parameters: [how?: ResetOptions]; result: Boolean };
  /** The next block's base fee, which need not follow from the block before. A setter's block is not meant. */
  hardhat_setNextBlockBaseFeePerGas: { parameters: [wei: Count]; result: Boolean };
  /** What transactions of the next block read as its randomness. A setter's block is not meant. */
  hardhat_setPrevRandao: { parameters: [randomness: Slot]; result: Boolean };
  /** Takes a transaction out of the pool; false when it was not there, an error when it is in a block. */
  hardhat_dropTransaction: { parameters: [hash: Hash]; result: Boolean };
  /** What this node is and how far its chain is. */
  hardhat_metadata: { parameters: []; result: HardhatMetadata };
  /** Whether transactions make blocks by themselves. */
  anvil_getAutomine: { parameters: []; result: Boolean };
  /** Makes so many blocks, so many seconds apart (one where nothing is said). */
  anvil_mine: { parameters: [blocks?: Count, apart?: Count]; result: null };
  /** Sets what an account owns, in a block of its own. */
  anvil_setBalance: { parameters: [account: Address, wei: Quantity]; result: null };
  /** Sets an account's next nonce, in a block of its own. */
  anvil_setNonce: { parameters: [account: Address, nonce: Quantity]; result: null };
  /** Sets an account's code, which is WebAssembly or empty, in a block of its own. */
  anvil_setCode: { parameters: [account: Address, code: Bytes]; result: null };
  /** Sets 32 bytes of a contract's storage, in a block of its own. */
  anvil_setStorageAt: { parameters: [account: Address, slot: Slot, value: Slot]; result: null };
  /** From now on `eth_sendTransaction` takes transactions of this account, whose key nobody needs and which may be a contract. */
  anvil_impersonateAccount: { parameters: [account: Address]; result: null };
  /** Ends that. */
  anvil_stopImpersonatingAccount: { parameters: [account: Address]; result: null };
  /** Begins again at the genesis, as after a start: snapshots, impersonation and what waits are gone. A chain to fork is refused. */
  anvil_reset: { parameters: [how?: ResetOptions]; result: null };
  /** The next block's base fee, which need not follow from the block before. A setter's block is not meant. */
  anvil_setNextBlockBaseFeePerGas: { parameters: [wei: Count]; result: null };
  /** Takes a transaction out of the pool, and names it; null when it was not there. */
  anvil_dropTransaction: { parameters: [hash: Hash]; result: Hash | null };
  /** Takes all transactions out of the pool. */
  anvil_dropAllTransactions: { parameters: []; result: null };
  /** Takes an account's transactions out of the pool. */
  anvil_removePoolTransactions: { parameters: [account: Address]; result: null };
  /** How far the chain is and what its next block costs. */
  anvil_nodeInfo: { parameters: []; result: AnvilNodeInfo };
  /** How a block was ordered, and what was skipped; null for the genesis block. */
  corniche_getOrdering: { parameters: [block?: BlockId]; result: Ordering | null };
  /** The certificate that proves a block final, which may be a later block's. */
  corniche_getCertificate: { parameters: [block?: BlockId]; result: Certificate | null };
  /** Where a transaction stands or how it left, and when. */
  corniche_getTransactionStatus: { parameters: [hash: Hash]; result: TransactionStatus | null };
  /** The newest executed block and the newest certified one. */
  corniche_getHeads: { parameters: []; result: Heads };
  /** The committee: who orders and signs, and how many signatures make a certificate. */
  corniche_getValidators: { parameters: []; result: Validators };
  /** This node, and the peers it is connected with: version, validator, time of a ping there and back. Where they are is not told. */
  corniche_getPeers: { parameters: []; result: Peers };
  /** What this node's execution did since it started: runs, runs again, results that were ready when they were ordered. */
  corniche_getStatistics: { parameters: []; result: Statistics };
  /** What running a block took on this node, which is no fact of the chain: lanes, runs again, time. Null for blocks that are not among the newest 1,024 (fewer where they are large), and for those from before the node started. */
  corniche_getExecution: { parameters: [block?: BlockId]; result: Execution | null };
  /** What a validator's ordering did lately: rounds from and to, or `latest` and how many. */
  corniche_getDag: { parameters: [first: FirstRound, last: Quantity]; result: Dag };
}

/** The parameters of a method and its result, for a function of your own: `call<M extends Method>(method: M, ...parameters: Methods[M]['parameters'])`. */
export type Method = keyof Methods;

/** The same as viem takes it: `createPublicClient({ rpcSchema: rpcSchema<RpcSchema>(), … })`. */
export type RpcSchema = { [M in Method]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] } }[Method][];
