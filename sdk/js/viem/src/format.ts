// Answers of a node in JavaScript's own words: numbers that count wei, blocks, rounds or milliseconds are bigints, small ones numbers.

import { hexToBytes, type Address, type Hash, type Hex } from 'viem';
import type * as rpc from './rpc.ts';

/** A block, named. */
export interface HeadBlock {
  hash: Hash;
  number: bigint;
  /** The time that was agreed on with its order, in Unix milliseconds. */
  timestampMs: bigint;
}

/** The newest block of each status. */
export interface Heads {
  /** Durable on the node asked, with receipts: viem's `latest`. */
  executed: HeadBlock;
  /** Signed by a quorum, and all before it: viem's `safe` and `finalized`. */
  certified: HeadBlock;
}

/** A quorum's signature of a block, which covers all its ancestors. */
export interface Certificate {
  epoch: bigint;
  committeeHash: Hash;
  blockNumber: bigint;
  blockHash: Hash;
  faultModel: 'byzantine' | 'crash';
  /** The places in the committee of those who signed, ascending. */
  signers: number[];
  /** Compressed BLS12-381 point, 48 bytes. */
  signature: Hex;
  /** As the node answered, for a verifier. */
  raw: rpc.Certificate;
}

export interface Validator {
  index: number;
  /** ed25519: signs the engine's messages. */
  consensusKey: Hex;
  /** BLS12-381, compressed: signs headers. */
  blsKey: Hex;
  /** ed25519: the identity of its connections. */
  networkKey: Hex;
  feeAddress: Address;
}

/** Who orders and signs. */
export interface Validators {
  epoch: bigint;
  committeeHash: Hash;
  engine: string;
  /** How many signatures make a certificate. */
  quorum: number;
  /** What other answers call a validator is its place here. */
  validators: Validator[];
}

/** A member of a network, as a node tells of it; what is not known is left out. */
export interface Peer {
  /** The network key as libp2p writes it. */
  peerId: string;
  /** ed25519: the identity of its connections. */
  networkKey: Hex;
  /** Its place in the committee, if it is a validator. */
  validator?: number;
  /** Whom its tips go to, if it is a validator. */
  feeAddress?: Address;
  /** What its software calls itself: its own word. */
  version?: string;
  /** When the link came up, in Unix milliseconds by the clock of the node asked. */
  connectedMs?: bigint;
  /** Of the last ping there and back, in microseconds. */
  roundTripUs?: number;
}

/** A node and whom it is connected with. */
export interface Peers {
  /** The node asked; `null` for one that has no name among peers. */
  own: Peer | null;
  peers: Peer[];
}

/** When a transaction came to where it is, in Unix milliseconds; what is not known is left out. */
export interface TransactionTimes {
  /** It entered the node's pool, by the node's clock. Of executed transactions it is remembered for a while. */
  receivedMs?: bigint;
  /** It left the pool without having been executed, by the same clock. */
  leftMs?: bigint;
  /** The time that was agreed on with its block's order. */
  orderedMs?: bigint;
}

/** Where a transaction stands. It goes through the first four in this order, and may leave by one of the last two. */
export type TransactionStatus = TransactionTimes &
  (
    | { status: 'pending' | 'ordered' }
    | { status: 'executed' | 'certified'; blockHash: Hash; blockNumber: bigint }
    | { status: 'dropped'; reason: string }
    | { status: 'replaced'; by: Hash }
  );

/** Part of a validator's batch. */
export interface BatchRange {
  author: number;
  digest: Hash;
  first: number;
  count: number;
}

/** A transaction that was ordered and not executed. */
export interface SkippedTransaction {
  position: number;
  hash: Hash;
  reason: string;
}

/** How a block was ordered. keccak-256 of `encoded` is the header's `extraData`, and it says the same as the other fields. */
export interface Ordering {
  /** Version of the rules that the block was built and executed under. */
  protocolVersion: number;
  engine: string;
  epoch: bigint;
  committeeHash: Hash;
  nextCommitteeHash: Hash;
  firstCommit: bigint;
  lastCommit: bigint;
  lastCommitConsumed: bigint;
  /** By its place in the committee. */
  leader: number;
  timestampMs: bigint;
  randomness: Hex;
  batches: BatchRange[];
  transactionsHash: Hash;
  skipped: SkippedTransaction[];
  resumeHash: Hash;
  encoded: Hex;
}

/** A proposal of a validator, and what it refers to. */
export interface Vertex {
  round: bigint;
  author: number;
  digest: Hash;
  parents: Hash[];
  batchBytes: number;
  /** What a block's ordering names the batch by; absent for an empty one. */
  batchDigest?: Hash;
  proposedMs?: bigint;
  acceptedMs?: bigint;
  /** Under Autobahn: who signed that they hold it, by their places in the committee; absent while no such proof is known. */
  holders?: number[];
}

/** A place in the order that a proposal may take, and what was decided of it. */
export interface LeaderSlot {
  round: bigint;
  rank: number;
  validator: number;
  status: 'committed' | 'skipped' | 'undecided';
  digest?: Hash;
  decidedMs?: bigint;
  why?: string;
  /** The number of its commit, as a block's ordering counts them; absent until its turn has come. */
  commit?: bigint;
  /** Under Autobahn: who voted for the cut; absent where the node saw only the second step of the slow way. */
  voters?: number[];
  /** Under Autobahn: who confirmed in that second step. */
  confirmers?: number[];
}

/** What a validator's ordering did in some rounds. */
export interface Dag {
  fromRound: bigint;
  toRound: bigint;
  newestRound: bigint;
  vertices: Vertex[];
  slots: LeaderSlot[];
  /** Digests in the order that was agreed on. */
  order: Hash[];
  /** How many were left out, because there were more than one answer holds. */
  dropped: number;
}

/** What running a block took on one node, in one run of that node. */
export interface Execution {
  /** That ran it side by side; each is a lane, numbered from 0. */
  threads: number;
  runs: number;
  runsAgain: number;
  waits: number;
  /** How many had their result ready from an early run. */
  adopted: number;
  durationUs: number;
  /** For each transaction of the block, in order: the lane that came to its result. */
  laneOf: number[];
  /** The same: how often it ran; 0: its result was ready. */
  runsOf: number[];
  /** The same: when it came to this node, in Unix milliseconds by its clock; `null` where it does not know. */
  receivedMs: (bigint | null)[];
}

/** Counts since the node started; `poolTransactions` is of now. */
export type Statistics = { [K in keyof rpc.Statistics]: bigint };

/** The numbers among some optional fields, without those that are not there. */
function times<K extends string>(from: { [N in K]?: Hex }, ...names: K[]): { [N in K]?: bigint } {
  const known: { [N in K]?: bigint } = {};
  for (const name of names) if (from[name] !== undefined) known[name] = BigInt(from[name]);
  return known;
}

/** The same for lists of validators by their places in the committee. */
function places<K extends string>(from: { [N in K]?: Hex[] }, ...names: K[]): { [N in K]?: number[] } {
  const known: { [N in K]?: number[] } = {};
  for (const name of names) if (from[name] !== undefined) known[name] = from[name].map(Number);
  return known;
}

const head = ({ hash, number, timestampMs }: rpc.HeadBlock): HeadBlock => ({
  hash,
  number: BigInt(number),
  timestampMs: BigInt(timestampMs),
});

export const formatHeads = ({ executed, certified }: rpc.Heads): Heads => ({ executed: head(executed), certified: head(certified) });

/** The places of a bitmap's bits, least significant bit of the first byte first. */
export function signersOf(bitmap: Hex): number[] {
  const bytes = bitmap.slice(2).match(/../g) ?? [];
  return bytes.flatMap((byte, at) => [...Array(8).keys()].filter((bit) => (parseInt(byte, 16) >> bit) & 1).map((bit) => 8 * at + bit));
}

export const formatCertificate = (raw: rpc.Certificate): Certificate => ({
  epoch: BigInt(raw.epoch),
  committeeHash: raw.committeeHash,
  blockNumber: BigInt(raw.blockNumber),
  blockHash: raw.blockHash,
  faultModel: raw.faultModel,
  signers: signersOf(raw.signers),
  signature: raw.signature,
  raw,
});

export const formatValidators = ({ epoch, committeeHash, engine, quorum, validators }: rpc.Validators): Validators => ({
  epoch: BigInt(epoch),
  committeeHash,
  engine,
  quorum: Number(quorum),
  validators: validators.map((validator) => ({ ...validator, index: Number(validator.index) })),
});

const peer = ({ validator, connectedMs, roundTripUs, ...rest }: rpc.Peer): Peer => ({
  ...rest,
  ...(validator === undefined ? {} : { validator: Number(validator) }),
  ...(connectedMs === undefined ? {} : { connectedMs: BigInt(connectedMs) }),
  ...(roundTripUs === undefined ? {} : { roundTripUs: Number(roundTripUs) }),
});

export const formatPeers = ({ own, peers }: rpc.Peers): Peers => ({ own: own && peer(own), peers: peers.map(peer) });

export function formatTransactionStatus(answer: rpc.TransactionStatus): TransactionStatus {
  const since = times(answer, 'receivedMs', 'leftMs', 'orderedMs');
  switch (answer.status) {
    case 'executed':
    case 'certified':
      return { status: answer.status, blockHash: answer.blockHash, blockNumber: BigInt(answer.blockNumber), ...since };
    case 'dropped':
      return { status: answer.status, reason: answer.reason, ...since };
    case 'replaced':
      return { status: answer.status, by: answer.by, ...since };
    default:
      return { status: answer.status, ...since };
  }
}

export const formatOrdering = (answer: rpc.Ordering): Ordering => ({
  ...answer,
  protocolVersion: Number(answer.protocolVersion),
  epoch: BigInt(answer.epoch),
  firstCommit: BigInt(answer.firstCommit),
  lastCommit: BigInt(answer.lastCommit),
  lastCommitConsumed: BigInt(answer.lastCommitConsumed),
  leader: Number(answer.leader),
  timestampMs: BigInt(answer.timestampMs),
  batches: answer.batches.map(({ author, digest, first, count }) => ({
    author: Number(author),
    digest,
    first: Number(first),
    count: Number(count),
  })),
  skipped: answer.skipped.map(({ position, hash, reason }) => ({ position: Number(position), hash, reason })),
});

export const formatDag = ({ fromRound, toRound, newestRound, vertices, slots, order, dropped }: rpc.Dag): Dag => ({
  fromRound: BigInt(fromRound),
  toRound: BigInt(toRound),
  newestRound: BigInt(newestRound),
  vertices: vertices.map((vertex) => ({
    round: BigInt(vertex.round),
    author: Number(vertex.author),
    digest: vertex.digest,
    parents: vertex.parents,
    batchBytes: Number(vertex.batchBytes),
    ...(vertex.batchDigest === undefined ? {} : { batchDigest: vertex.batchDigest }),
    ...times(vertex, 'proposedMs', 'acceptedMs'),
    ...places(vertex, 'holders'),
  })),
  slots: slots.map((slot) => ({
    round: BigInt(slot.round),
    rank: Number(slot.rank),
    validator: Number(slot.validator),
    status: slot.status,
    ...(slot.digest === undefined ? {} : { digest: slot.digest }),
    ...(slot.why === undefined ? {} : { why: slot.why }),
    ...times(slot, 'decidedMs', 'commit'),
    ...places(slot, 'voters', 'confirmers'),
  })),
  order,
  dropped: Number(dropped),
});

/** Eight bytes for each transaction; zeros stand for what is not known. */
const moments = (told: Hex): (bigint | null)[] =>
  Array.from({ length: (told.length - 2) / 16 }, (_, at) => BigInt(`0x${told.slice(2 + 16 * at, 18 + 16 * at)}`) || null);

export const formatExecution = (answer: rpc.Execution): Execution => ({
  threads: Number(answer.threads),
  runs: Number(answer.runs),
  runsAgain: Number(answer.runsAgain),
  waits: Number(answer.waits),
  adopted: Number(answer.adopted),
  durationUs: Number(answer.durationUs),
  laneOf: [...hexToBytes(answer.laneOf)],
  runsOf: [...hexToBytes(answer.runsOf)],
  receivedMs: moments(answer.receivedOf ?? '0x'),
});

export const formatStatistics = (answer: rpc.Statistics): Statistics =>
  Object.fromEntries(Object.entries(answer).map(([name, count]) => [name, BigInt(count)])) as Statistics;
