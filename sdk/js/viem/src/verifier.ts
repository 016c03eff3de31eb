/**
 * Verifies finality, accounts and storage locally: in a browser, in Node.js, in a worker. The checks are the node's own
 * Rust code, as `verifier.wasm`; the node is not trusted. This module imports no other one, not even viem.
 *
 * @packageDocumentation
 */

import type { AccountProof, Certificate, CommitteeInfo, EpochChange, Header } from './rpc.ts';

type Hex = `0x${string}`;

/** A proof is invalid: its source is dishonest, or on another chain than the genesis. */
export class VerificationError extends Error {
  override name = 'VerificationError';
}

/**
 * Quorums have certified two chains. The verifier throws it from now on. Trust no node of this chain, and publish both
 * certificates: anybody can verify them.
 */
export class ConflictError extends VerificationError {
  override name = 'ConflictError';

  constructor(
    message: string,
    /** The certificates, in the order in which they were seen. */
    readonly certificates: readonly [Certificate, Certificate],
  ) {
    super(message);
  }
}

/** Age in milliseconds from which a head is stale. An idle chain makes a block a minute. */
const STALE_HEAD_MS = 180_000;

/**
 * Returns whether the newest final header is more than 3 minutes old. The node may withhold newer blocks, or the chain has
 * stopped. `now` is a Unix time in milliseconds.
 */
export const isStale = ({ timestamp }: { timestamp: bigint }, now: number = Date.now()): boolean => now - Number(timestamp) * 1_000 > STALE_HEAD_MS;

/** Storage of the newest trust point between sessions, such as `localStorage`. */
export interface TrustStorage {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): void | Promise<void>;
}

/** Source of `verifier.wasm`: a URL, a response of `fetch`, the bytes, or the compiled module. */
export type VerifierSource = string | URL | Response | BufferSource | WebAssembly.Module;

/** A header in which every field is verified. */
export interface FinalHeader {
  hash: Hex;
  number: bigint;
  parentHash: Hex;
  stateRoot: Hex;
  transactionsRoot: Hex;
  receiptsRoot: Hex;
  /** Unix time in seconds. */
  timestamp: bigint;
  gasUsed: bigint;
  baseFeePerGas: bigint;
  /** keccak-256 of the ordering record, or of its head from protocol version 5 on. */
  extraData: Hex;
}

/** An account and some of its slots, all values verified. All values are zero if the account does not exist. */
export interface ProvenAccount {
  address: Hex;
  /** Balance in wei. */
  balance: bigint;
  nonce: bigint;
  /** keccak-256 of the code; that of empty input for an account without code. */
  codeHash: Hex;
  /** Slots in the requested order; zero if unset. */
  storage: { key: Hex; value: Hex }[];
}

interface Committee {
  chainId: Hex;
  currency: string;
  genesisHash: Hex;
  committeeHash: Hex;
  validators: number;
  votes: number;
  quorum: number;
}

interface Trusted {
  epoch: Hex;
  trustPoint: string | null;
}

interface Exports {
  memory: WebAssembly.Memory;
  allocate(length: number): number;
  release(pointer: number, length: number): void;
  answer(pointer: number, length: number): bigint;
}

let own: Promise<WebAssembly.Module> | undefined;

/**
 * Compiles the module. Without a source, it loads the file of this package once. Bundles that are not ES modules cannot
 * locate that file, so they have to pass a source.
 */
export async function loadVerifier(source?: VerifierSource): Promise<WebAssembly.Module> {
  if (source !== undefined) return compile(source);
  own ??= compile(new URL('../verifier.wasm', import.meta.url)).catch((error: unknown) => {
    // The next call retries.
    own = undefined;
    throw error;
  });
  return own;
}

async function compile(source: VerifierSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (typeof source === 'string' || source instanceof URL) {
    const url = String(source);
    return url.startsWith('file:') ? WebAssembly.compile(await readFile(url)) : compile(await fetch(url));
  }
  if (!(source instanceof Response)) return WebAssembly.compile(source);
  if (!source.ok) throw new Error(`${source.url}: HTTP status ${source.status}`);
  // Compiled after download, because streaming compilation requires the type application/wasm.
  return WebAssembly.compile(await source.arrayBuffer());
}

/** Reads a file in Node.js, without an import that browser bundlers would try to resolve. */
async function readFile(url: string): Promise<BufferSource> {
  type Process = { getBuiltinModule(name: string): { promises: { readFile(url: URL): Promise<Uint8Array<ArrayBuffer>> } } };
  const { process } = globalThis as unknown as { process?: Process };
  if (!process?.getBuiltinModule) throw new Error(`${url} cannot be read here: say where verifier.wasm is`);
  return process.getBuiltinModule('node:fs').promises.readFile(new URL(url));
}

/** An instance of the module. Requests and responses are JSON texts; see sdk/verifier. */
class Instance {
  readonly #exports: Exports;
  #broken = false;

  constructor(module: WebAssembly.Module) {
    this.#exports = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
  }

  ask<Answer>(question: object): Answer {
    if (this.#broken) throw new Error('the verifier stopped before: open another one');
    const { ok, error, conflict } = JSON.parse(this.#exchange(JSON.stringify(question)));
    if (conflict) throw new ConflictError(error, conflict);
    if (error !== undefined) throw new VerificationError(error);
    return ok;
  }

  #exchange(text: string): string {
    const { memory, allocate, release, answer } = this.#exports;
    const question = new TextEncoder().encode(text);
    // Reset after success. An instance whose call failed midway must not be used again.
    this.#broken = true;
    const at = allocate(question.length) >>> 0;
    new Uint8Array(memory.buffer, at, question.length).set(question);
    const answered = answer(at, question.length);
    release(at, question.length);
    const [start, length] = [Number(BigInt.asUintN(32, answered)), Number(BigInt.asUintN(64, answered) >> 32n)];
    const said = new TextDecoder().decode(new Uint8Array(memory.buffer, start, length));
    release(start, length);
    this.#broken = false;
    return said;
  }
}

export interface OpenParameters {
  /** Expected hash of the genesis. With a trusted hash, the genesis may come from any source. */
  hash?: Hex;
  /** Location of `verifier.wasm`, if it is not found automatically. */
  module?: VerifierSource;
  /**
   * Trust point to begin with instead of the genesis, `corniche-trust:1:…`. `corniche validator status` and the explorer
   * print it. Needed if the genesis is older than two thirds of the time for which stake answers.
   */
  trust?: string;
  /** `true` to accept a genesis or trust point of any age: its validators may have left, and could sign another chain. */
  acceptExpiredTrust?: boolean;
  /** Keeps the newest verified trust point, where the next verifier of this chain begins. */
  storage?: TrustStorage;
}

/** Epoch of a trust point; -1 if the text is not one of this chain. */
export function epochOf(text: string | null | undefined, chainId: bigint): number {
  const [, chain, epoch] = /^corniche-trust:1:(\d+):(\d+):0x[0-9a-f]{64}$/.exec(text ?? '') ?? [];
  return chain === String(chainId) ? Number(epoch) : -1;
}

/**
 * Verifier that trusts only a chain's genesis, or a trust point.
 *
 * @example
 * const verifier = await Verifier.open(await readFile('genesis.json', 'utf8'));
 */
export class Verifier {
  readonly chainId: bigint;
  /** The currency's symbol. */
  readonly currency: string;
  /** Hash of this genesis, as in block 0 and on other nodes. */
  readonly genesisHash: Hex;
  readonly committeeHash: Hex;
  readonly validators: number;
  /** Votes of all validators, and minimum votes of the signers of a certificate. */
  readonly votes: number;
  readonly quorum: number;
  readonly #instance: Instance;
  #epoch = 0n;
  #trustPoint: string | null = null;
  #pendingTrust: string | null = null;
  #storage: TrustStorage | undefined;

  private constructor(instance: Instance, { chainId, currency, genesisHash, committeeHash, validators, votes, quorum }: Committee) {
    this.#instance = instance;
    this.chainId = BigInt(chainId);
    this.currency = currency;
    this.genesisHash = genesisHash;
    this.committeeHash = committeeHash;
    this.validators = validators;
    this.votes = votes;
    this.quorum = quorum;
  }

  /**
   * Parses and checks the text of a genesis file, including the proofs of possession: some milliseconds for each validator.
   * Throws a `VerificationError` if the genesis is too old, and there is neither a trust point nor consent.
   */
  static async open(genesis: string, { hash, module, trust, acceptExpiredTrust = false, storage }: OpenParameters = {}): Promise<Verifier> {
    const instance = new Instance(await loadVerifier(module));
    const verifier = new Verifier(instance, instance.ask<Committee>({ open: { genesis, acceptExpiredTrust, ...(hash ? { hash } : {}) } }));
    verifier.#storage = storage;
    const { chainId } = verifier;
    if (trust !== undefined && epochOf(trust, chainId) < 0) {
      throw new VerificationError(`trust point: expected corniche-trust:1:${chainId}:EPOCH:HASH, got ${trust}; copy it as a whole`);
    }
    const kept = (await storage?.getItem(verifier.#storageKey)) ?? null;
    verifier.#pendingTrust = epochOf(kept, chainId) > epochOf(trust, chainId) ? kept : (trust ?? null);
    if (verifier.#pendingTrust === null) verifier.advance([]);
    return verifier;
  }

  get #storageKey(): string {
    return `corniche-trust:${this.genesisHash}`;
  }

  /** Newest epoch whose committee is known. Certificates of later epochs cannot be verified yet. */
  get epoch(): bigint {
    return this.#epoch;
  }

  /** Newest verified end of an epoch, where a later verifier can begin; `null` for the genesis. */
  get trustPoint(): string | null {
    return this.#trustPoint;
  }

  /** Trust point to begin with, until its block has been fetched; see `trust`. */
  get pendingTrust(): string | null {
    return this.#pendingTrust;
  }

  /**
   * Begins at a trust point. Pass the first change of a response to `corniche_getEpochChanges` for its epoch, and the response to
   * `corniche_getCommittee` for the epoch after it. Returns that epoch, or throws a `VerificationError`.
   */
  trust({ text, change, committee }: { text: string; change: EpochChange; committee: CommitteeInfo }): bigint {
    const epoch = this.#follow(this.#instance.ask<Trusted>({ trust: { text, change, committee, nowMs: Date.now() } }));
    this.#pendingTrust = null;
    return epoch;
  }

  /**
   * Follows the committee over the ends of epochs, each of which the committee before has signed. Pass responses to
   * `corniche_getEpochChanges` unchanged, from the newest known epoch on. Returns the newest known epoch, or throws a `VerificationError`.
   */
  advance(changes: readonly EpochChange[]): bigint {
    return this.#follow(this.#instance.ask<Trusted>({ advance: { changes, nowMs: Date.now() } }));
  }

  #follow({ epoch, trustPoint }: Trusted): bigint {
    [this.#epoch, this.#trustPoint] = [BigInt(epoch), trustPoint];
    return this.#epoch;
  }

  /** Writes the newest trust point to the storage. `verifyBlock` does it after it has followed the committee. */
  async save(): Promise<void> {
    if (this.#trustPoint) await this.#storage?.setItem(this.#storageKey, this.#trustPoint);
  }

  /** Removes the trust point from the storage. `verifyBlock` does it if quorums have certified two chains. */
  async forget(): Promise<void> {
    await this.#storage?.setItem(this.#storageKey, '');
  }

  /**
   * Verifies that a block is final: a quorum signed the certificate, and the headers link the certified block (the
   * first) to the requested block (the last). Pass the node's responses unchanged. Returns the last header, or throws a
   * `VerificationError`; a `ConflictError` if quorums have certified two chains.
   */
  final({ certificate, headers }: { certificate: Certificate; headers: readonly Header[] }): FinalHeader {
    const header = this.#instance.ask<Header & { hash: Hex }>({ final: { certificate, headers, nowMs: Date.now() } });
    return {
      hash: header.hash,
      number: BigInt(header.number),
      parentHash: header.parentHash,
      stateRoot: header.stateRoot,
      transactionsRoot: header.transactionsRoot,
      receiptsRoot: header.receiptsRoot,
      timestamp: BigInt(header.timestamp),
      gasUsed: BigInt(header.gasUsed),
      baseFeePerGas: BigInt(header.baseFeePerGas),
      extraData: header.extraData,
    };
  }

  /** Verifies a response to `eth_getProof` for this account and these slots against the state root of a final header. */
  account({ stateRoot, address, slots = [], proof }: { stateRoot: Hex; address: Hex; slots?: readonly Hex[]; proof: AccountProof }): ProvenAccount {
    const { balance, nonce, ...rest } = this.#instance.ask<Omit<ProvenAccount, 'balance' | 'nonce'> & { balance: Hex; nonce: Hex }>({
      account: { stateRoot, address, slots, proof },
    });
    return { ...rest, balance: BigInt(balance), nonce: BigInt(nonce) };
  }
}

/** Returns the text of the ABI in a contract's code, unchecked; `null` without one. */
export async function interfaceOf(code: Hex, { module }: { module?: VerifierSource } = {}): Promise<string | null> {
  return new Instance(await loadVerifier(module)).ask<string | null>({ interface: { code } });
}
