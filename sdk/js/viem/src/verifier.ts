/**
 * Finality, accounts and storage, checked where this runs: in a browser, in Node.js, in a worker. The code that decides is the node's own,
 * in Rust, as `verifier.wasm`; nothing that a node says is believed. This module needs no other one, neither viem.
 *
 * @packageDocumentation
 */

import type { AccountProof, Certificate, Header } from './rpc.ts';

type Hex = `0x${string}`;

/** What was shown is not so: whoever served it lies, or is on another chain than the genesis at hand. */
export class VerificationError extends Error {
  override name = 'VerificationError';
}

/** Where `verifier.wasm` is to be had from: a URL, an answer of `fetch`, its bytes, or the compiled module. */
export type VerifierSource = string | URL | Response | BufferSource | WebAssembly.Module;

/** A header every field of which is known to be right. */
export interface FinalHeader {
  hash: Hex;
  number: bigint;
  parentHash: Hex;
  stateRoot: Hex;
  transactionsRoot: Hex;
  receiptsRoot: Hex;
  /** Seconds since 1970. */
  timestamp: bigint;
  gasUsed: bigint;
  baseFeePerGas: bigint;
  /** keccak-256 of the block's ordering record. */
  extraData: Hex;
}

/** What an account and some of its slots hold, every value of it shown. Of an account that is not there all are zero. */
export interface ProvenAccount {
  address: Hex;
  /** Wei. */
  balance: bigint;
  nonce: bigint;
  /** keccak-256 of the code; of an account without code, of nothing. */
  codeHash: Hex;
  /** In the order asked for; zero where nothing is. */
  storage: { key: Hex; value: Hex }[];
}

interface Committee {
  chainId: Hex;
  currency: string;
  genesisHash: Hex;
  committeeHash: Hex;
  validators: number;
  quorum: number;
}

/** What the module exports. */
interface Exports {
  memory: WebAssembly.Memory;
  allocate(length: number): number;
  release(pointer: number, length: number): void;
  answer(pointer: number, length: number): bigint;
}

let own: Promise<WebAssembly.Module> | undefined;

/**
 * The module, compiled. Without a source it is the file beside this one, loaded once; a bundle of another format than ES modules does not
 * know where that is, and has to say.
 */
export async function loadVerifier(source?: VerifierSource): Promise<WebAssembly.Module> {
  if (source !== undefined) return compile(source);
  own ??= compile(new URL('../verifier.wasm', import.meta.url)).catch((error: unknown) => {
    // The next one tries again.
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
  // Whatever type the server calls it: compiling while it arrives takes application/wasm only.
  return WebAssembly.compile(await source.arrayBuffer());
}

/** A file's bytes, in Node.js; without an import that bundlers for browsers would look for. */
async function readFile(url: string): Promise<BufferSource> {
  type Process = { getBuiltinModule(name: string): { promises: { readFile(url: URL): Promise<Uint8Array<ArrayBuffer>> } } };
  const { process } = globalThis as unknown as { process?: Process };
  if (!process?.getBuiltinModule) throw new Error(`${url} cannot be read here: say where verifier.wasm is`);
  return process.getBuiltinModule('node:fs').promises.readFile(new URL(url));
}

/** One instance of the module. Questions and answers are JSON texts, as sdk/verifier describes them. */
class Instance {
  readonly #exports: Exports;
  #broken = false;

  constructor(module: WebAssembly.Module) {
    this.#exports = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
  }

  ask<Answer>(question: object): Answer {
    if (this.#broken) throw new Error('the verifier stopped before: open another one');
    const { ok, error } = JSON.parse(this.#exchange(JSON.stringify(question)));
    if (error !== undefined) throw new VerificationError(error);
    return ok;
  }

  #exchange(text: string): string {
    const { memory, allocate, release, answer } = this.#exports;
    const question = new TextEncoder().encode(text);
    // Until it has come through: a module that stopped half-way is not asked again.
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
  /** The hash that the genesis must have. Who has it from a source of their own may fetch the genesis from anywhere. */
  hash?: Hex;
  /** Where `verifier.wasm` is, where it is not found by itself. */
  module?: VerifierSource;
}

/**
 * Who knows a chain's genesis and believes nothing else.
 *
 * @example
 * const verifier = await Verifier.open(await readFile('genesis.json', 'utf8'));
 */
export class Verifier {
  readonly chainId: bigint;
  /** The currency's symbol. */
  readonly currency: string;
  /** What other nodes and block 0 call this genesis. */
  readonly genesisHash: Hex;
  readonly committeeHash: Hex;
  /** How many validators there are, and how many signatures make a certificate. */
  readonly validators: number;
  readonly quorum: number;
  readonly #instance: Instance;

  private constructor(instance: Instance, { chainId, currency, genesisHash, committeeHash, validators, quorum }: Committee) {
    this.#instance = instance;
    this.chainId = BigInt(chainId);
    this.currency = currency;
    this.genesisHash = genesisHash;
    this.committeeHash = committeeHash;
    this.validators = validators;
    this.quorum = quorum;
  }

  /** Reads a genesis file's text and checks it, the validators' proofs that they hold their keys included: some milliseconds for each. */
  static async open(genesis: string, { hash, module }: OpenParameters = {}): Promise<Verifier> {
    const instance = new Instance(await loadVerifier(module));
    return new Verifier(instance, instance.ask<Committee>({ open: { genesis, ...(hash ? { hash } : {}) } }));
  }

  /**
   * Checks that a block is final: a quorum signed the certificate, and the headers lead from the certificate's block, the first, to the
   * block in question, the last. What a node answered is handed over as it is. Answers the last header, or throws a `VerificationError`.
   */
  final({ certificate, headers }: { certificate: Certificate; headers: readonly Header[] }): FinalHeader {
    const header = this.#instance.ask<Header & { hash: Hex }>({ final: { certificate, headers } });
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

  /** Checks what `eth_getProof` answered to a question for this account and these slots, against the state root of a final header. */
  account({ stateRoot, address, slots = [], proof }: { stateRoot: Hex; address: Hex; slots?: readonly Hex[]; proof: AccountProof }): ProvenAccount {
    const { balance, nonce, ...rest } = this.#instance.ask<Omit<ProvenAccount, 'balance' | 'nonce'> & { balance: Hex; nonce: Hex }>({
      account: { stateRoot, address, slots, proof },
    });
    return { ...rest, balance: BigInt(balance), nonce: BigInt(nonce) };
  }
}

/** The text of the ABI that a contract's code carries, which nobody has checked; `null` without one. */
export async function interfaceOf(code: Hex, { module }: { module?: VerifierSource } = {}): Promise<string | null> {
  return new Instance(await loadVerifier(module)).ask<string | null>({ interface: { code } });
}
