// Converts responses to JavaScript types: wei, block numbers, rounds and milliseconds become bigints, small numbers
// numbers.

import { hexToBytes, type Address, type Hash, type Hex } from 'viem';
import type * as rpc from './rpc.ts';

/** Hash, number and time of a block. */
export interface HeadBlock {
  hash: Hash;
  number: bigint;
  /** Block time agreed by consensus, in Unix milliseconds. */
  timestampMs: bigint;
}

/** The newest block of each status. */
export interface Heads {
  /** Durable on this node, with receipts: viem's `latest`. */
  executed: HeadBlock;
  /** Signed by a quorum, together with its ancestors: viem's `safe` and `finalized`. */
  certified: HeadBlock;
}

/** A quorum's signature of a block, which covers all its ancestors. */
export interface Certificate {
  epoch: bigint;
  committeeHash: Hash;
  blockNumber: bigint;
  blockHash: Hash;
  faultModel: 'byzantine' | 'crash';
  /** Committee indexes of the signers, ascending. */
  signers: number[];
  /** Compressed BLS12-381 point, 48 bytes. */
  signature: Hex;
  /** The node's response, for a verifier. */
  raw: rpc.Certificate;
}

export interface Validator {
  index: number;
  /** ed25519: signs the engine's messages. */
  consensusKey: Hex;
  /** BLS12-381, compressed: signs headers. */
  blsKey: Hex;
  /** ed25519: identity in the peer-to-peer network. */
  networkKey: Hex;
  feeAddress: Address;
  /** Its votes in every quorum. */
  votes: number;
}

/** The committee, whose members order transactions and sign blocks. */
export interface Validators {
  epoch: bigint;
  committeeHash: Hash;
  engine: string;
  /** Faults that the engine tolerates: validators that lie, with less than a third of the votes; or only crashes, of less than half of them. */
  faultModel: 'byzantine' | 'crash';
  /** Minimum votes of the signers of a certificate. */
  quorum: number;
  /** Validators that check the signature of a transaction: all, or some with f + 1 votes that attest the sender to the others. */
  signatures: 'everyone' | 'sharded';
  /** Other responses refer to a validator by its index here. */
  validators: Validator[];
}

/** Parameters of staking in the genesis. Amounts are in wei. */
export interface StakingRules {
  /** Length of an epoch in milliseconds; 0 if epochs never end. */
  epochMs: bigint;
  /** Time between the freeze and the end of an epoch, in milliseconds. */
  closingMs: bigint;
  /** Lowest price of a vote. */
  voteWei: bigint;
  /** Maximum votes of one validator. */
  mostVotes: number;
  /** Maximum votes of a committee. */
  maxVotes: number;
  /** Maximum members of a committee. */
  maxValidators: number;
  /** Minimum members of a committee. */
  minValidators: number;
  /** Epochs for which stake is liable for what its votes signed. */
  unbondingEpochs: number;
  /** Epochs for which a key of the coin serves an unchanged committee. */
  coinMaxAge: number;
  /** Part of the stake that a conviction costs, in 1/10,000. */
  slashBps: number;
  /** Epochs for which a convicted validator is no candidate. */
  jailEpochs: number;
  /** Amount that each vote of a member earns per epoch. */
  rewardWei: bigint;
  /** Time between two snapshots of the state, in milliseconds. */
  snapshotMs: bigint;
}

/** A registered validator. Amounts are in wei. */
export interface StakedValidator {
  /** Its number in all committees; never used again. */
  id: number;
  owner: Address;
  /** Account that becomes the owner when it accepts. */
  nextOwner: Address | null;
  /** Account that may change keys and endpoints. */
  operator: Address;
  /** Recipient of fees and rewards. */
  fee: Address;
  /** Stake that counts for votes. */
  bonded: bigint;
  /** Stake that was unbonded and not withdrawn. */
  queued: bigint;
  /** Part of `queued` that can be withdrawn now. */
  free: bigint;
  /** First epoch in which it may be a candidate after a conviction; 0 if there was none. */
  jailedUntil: bigint;
  /** ed25519: signs the engine's messages. */
  consensusKey: Hex;
  /** BLS12-381, compressed: signs headers. */
  blsKey: Hex;
  /** ed25519: identity in the peer-to-peer network. */
  networkKey: Hex;
  /** BLS12-381 point, compressed: receives its parts of the coin's key. */
  coinKey: Hex;
  /** Addresses that it names for connections, not verified: printable ASCII, other bytes escaped. */
  endpoints: string[];
  /** Votes in the sitting committee; 0 if it is no member. */
  votes: number;
  /** Votes in the next committee; `null` unless the phase is `frozen`. */
  nextVotes: number | null;
  /** True if it announced itself for the next epoch. */
  announced: boolean;
}

/** State of the staking contract. Times are in Unix milliseconds of the chain's clock; `null` if epochs never end. */
export interface Staking {
  epoch: bigint;
  /** Time of the block that ended the epoch before; the genesis time in epoch 0. */
  startMs: bigint;
  /** Height of that block. */
  startBlock: bigint;
  /** Time from which validators announce themselves for the next epoch. */
  announcementsMs: bigint | null;
  /** Time from which the next committee is fixed. */
  freezeMs: bigint | null;
  /** Time from which the next epoch begins. */
  endMs: bigint | null;
  /** Next committee: not fixed yet; fixed, to take over at the end; the sitting one; fixed, and its coin is dealt, acknowledged or opened. */
  phase: 'open' | 'frozen' | 'kept' | 'dealing' | 'acknowledging' | 'opening';
  /** Price of a vote in the sitting committee, in wei. */
  votePrice: bigint;
  parameters: StakingRules;
  /** Registered validators by ascending number. */
  validators: StakedValidator[];
}

/** A peer, as reported by a node. Unknown fields are missing. */
export interface Peer {
  /** The network key as libp2p writes it. */
  peerId: string;
  /** ed25519: identity in the peer-to-peer network. */
  networkKey: Hex;
  /** Committee index, if it is a validator. */
  validator?: number;
  /** Fee address, if it is a validator. */
  feeAddress?: Address;
  /** Client version, as reported by the peer itself. */
  version?: string;
  /** Time of the connection in Unix milliseconds, on the clock of the requested node. */
  connectedMs?: bigint;
  /** Round trip of the last ping in microseconds. */
  roundTripUs?: number;
}

/** A node and its peers. */
export interface Peers {
  /** The requested node; `null` if it has no identity in the peer-to-peer network. */
  own: Peer | null;
  peers: Peer[];
}

/** Times of a transaction's changes in Unix milliseconds. Unknown ones are missing. */
export interface TransactionTimes {
  /** When it entered the node's pool, on the node's clock. Kept for a while after execution. */
  receivedMs?: bigint;
  /** When it left the pool without execution, on the same clock. */
  leftMs?: bigint;
  /** Time of its block, agreed by consensus. */
  orderedMs?: bigint;
}

/** Status of a transaction. It passes the first four in this order, and may end with one of the last two. */
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

/** A transaction that was ordered but not executed. */
export interface SkippedTransaction {
  position: number;
  hash: Hash;
  reason: string;
}

/**
 * Ordering of a block. The keccak-256 of `encoded` is the header's `extraData`. From protocol version 5 on
 * `encoded` ends with the keccak-256 of `encodedTail`. Together they have the content of the other fields.
 */
export interface Ordering {
  /** Version of the protocol rules for this block. */
  protocolVersion: number;
  engine: string;
  epoch: bigint;
  committeeHash: Hash;
  nextCommitteeHash: Hash;
  firstCommit: bigint;
  lastCommit: bigint;
  lastCommitConsumed: bigint;
  /** Committee index. */
  leader: number;
  timestampMs: bigint;
  randomness: Hex;
  batches: BatchRange[];
  transactionsHash: Hash;
  skipped: SkippedTransaction[];
  resumeHash: Hash;
  encoded: Hex;
  /** `null` below protocol version 5. */
  encodedTail: Hex | null;
}

/** A validator's proposal and its parents. */
export interface Vertex {
  round: bigint;
  author: number;
  digest: Hash;
  parents: Hash[];
  batchBytes: number;
  /** Digest of the batch, as in a block's ordering; missing for an empty batch. */
  batchDigest?: Hash;
  proposedMs?: bigint;
  acceptedMs?: bigint;
  /** Under Autobahn: committee indexes of validators that signed to hold it; missing while no such proof is known. */
  holders?: number[];
}

/** A leader slot and its decision. */
export interface LeaderSlot {
  round: bigint;
  rank: number;
  validator: number;
  status: 'committed' | 'skipped' | 'undecided';
  digest?: Hash;
  decidedMs?: bigint;
  why?: string;
  /** Number of its commit, as in a block's ordering; missing until all earlier slots are decided. */
  commit?: bigint;
  /** Under Autobahn: voters for the cut; missing if the node saw only the second step of the slow path. */
  voters?: number[];
  /** Under Autobahn: validators that confirmed in the second step. */
  confirmers?: number[];
}

/** A validator's consensus DAG in some rounds. */
export interface Dag {
  fromRound: bigint;
  toRound: bigint;
  newestRound: bigint;
  vertices: Vertex[];
  slots: LeaderSlot[];
  /** Digests in the agreed order. */
  order: Hash[];
  /** Number of omitted entries, because the response was full. */
  dropped: number;
}

/** Execution statistics of a block on one node, in one run. */
export interface Execution {
  /** Number of threads. Each is a lane, numbered from 0. */
  threads: number;
  runs: number;
  runsAgain: number;
  waits: number;
  /** Number of transactions whose result was ready from an early run. */
  adopted: number;
  durationUs: number;
  /** For each transaction of the block, in order: the lane that produced its result. */
  laneOf: number[];
  /** For each transaction: its number of runs; 0 if its result was ready. */
  runsOf: number[];
  /** For each transaction: when this node received it, in Unix milliseconds on its clock; `null` if unknown. */
  receivedMs: (bigint | null)[];
}

/** Counters since the node started; `poolTransactions` is a current value. */
export type Statistics = { [K in keyof rpc.Statistics]: bigint };

/** Converts the present ones of some optional number fields. */
function times<K extends string>(from: { [N in K]?: Hex }, ...names: K[]): { [N in K]?: bigint } {
  const known: { [N in K]?: bigint } = {};
  for (const name of names) if (from[name] !== undefined) known[name] = BigInt(from[name]);
  return known;
}

/** Converts the present ones of some optional lists of committee indexes. */
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

/** Returns the positions of a bitmap's set bits, least significant bit of the first byte first. */
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

export const formatValidators = ({ epoch, committeeHash, engine, faultModel, quorum, signatures, validators }: rpc.Validators): Validators => ({
  epoch: BigInt(epoch),
  committeeHash,
  engine,
  faultModel,
  quorum: Number(quorum),
  signatures,
  validators: validators.map((validator) => ({
    ...validator,
    index: Number(validator.index),
    // A node from before votes names none.
    votes: Number(validator.votes ?? 1),
  })),
});

const rules = (parameters: rpc.StakingRules): StakingRules => ({
  epochMs: BigInt(parameters.epochMs),
  closingMs: BigInt(parameters.closingMs),
  voteWei: BigInt(parameters.voteWei),
  mostVotes: Number(parameters.mostVotes),
  maxVotes: Number(parameters.maxVotes),
  maxValidators: Number(parameters.maxValidators),
  minValidators: Number(parameters.minValidators),
  unbondingEpochs: Number(parameters.unbondingEpochs),
  coinMaxAge: Number(parameters.coinMaxAge),
  slashBps: Number(parameters.slashBps),
  jailEpochs: Number(parameters.jailEpochs),
  rewardWei: BigInt(parameters.rewardWei),
  snapshotMs: BigInt(parameters.snapshotMs),
});

const time = (ms: Hex | null): bigint | null => ms && BigInt(ms);

export const formatStaking = (answer: rpc.Staking): Staking => ({
  epoch: BigInt(answer.epoch),
  startMs: BigInt(answer.startMs),
  startBlock: BigInt(answer.startBlock),
  announcementsMs: time(answer.announcementsMs),
  freezeMs: time(answer.freezeMs),
  endMs: time(answer.endMs),
  phase: answer.phase,
  votePrice: BigInt(answer.votePrice),
  parameters: rules(answer.parameters),
  validators: answer.validators.map((validator) => ({
    ...validator,
    id: Number(validator.id),
    bonded: BigInt(validator.bonded),
    queued: BigInt(validator.queued),
    free: BigInt(validator.free),
    jailedUntil: BigInt(validator.jailedUntil),
    votes: Number(validator.votes),
    nextVotes: validator.nextVotes && Number(validator.nextVotes),
  })),
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

/** Eight bytes for each transaction; zero means unknown. */
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
