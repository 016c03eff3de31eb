import { numberToHex, type Address, type Hex } from 'viem';
import type { AccountProof, Block, CommitteeInfo, EpochChange } from '../rpc.ts';
import { ConflictError, VerificationError, epochOf, type FinalHeader, type ProvenAccount, type Verifier } from '../verifier.ts';
import { getCertificate, getHeads } from './queries.ts';
import type { AnyClient } from './request.ts';

/** Most headers between a block and the certified descendant. */
const LONGEST_CHAIN = 4_096n;

/** Headers that are requested concurrently. */
const AT_ONCE = 32;

export interface VerifyBlockParameters {
  /** Verifier with the chain's genesis. */
  verifier: Verifier;
  /** Number of the block; by default that of the node's newest certified block. */
  blockNumber?: bigint;
}

/**
 * Returns a block's header after verifying that it is final: fetches the certificate and the headers between, and
 * checks them. `null` if the block has no certificate yet. Throws a `VerificationError` if a check fails. `isStale(header)` tells
 * whether the newest header is old.
 *
 * @example
 * const verifier = await Verifier.open(genesis);
 * const header = await client.verifyBlock({ verifier, blockNumber: 7n });
 */
export async function verifyBlock(client: AnyClient, parameters: VerifyBlockParameters): Promise<FinalHeader | null> {
  try {
    return await verify(client, parameters);
  } catch (error) {
    // A later verifier must not go on with one of two chains.
    if (error instanceof ConflictError) await parameters.verifier.forget();
    throw error;
  }
}

async function verify(client: AnyClient, { verifier, blockNumber }: VerifyBlockParameters): Promise<FinalHeader | null> {
  const number = blockNumber ?? (await getHeads(client)).certified.number;
  const certificate = await getCertificate(client, { blockNumber: number });
  if (!certificate) return null;
  await follow(client, verifier, certificate.epoch);
  // Members of a past epoch may have left, and could sign another head. The last block of the epoch before is in the trust point.
  const isBehind = certificate.epoch < verifier.epoch && !verifier.trustPoint?.endsWith(certificate.blockHash);
  if (blockNumber === undefined && isBehind) {
    throw new VerificationError('the node is behind the epoch that this verifier knows: try again, or ask another node');
  }
  const between = certificate.blockNumber - number;
  if (between < 0n || between > LONGEST_CHAIN) throw new VerificationError(`the certificate is for block ${certificate.blockNumber}, not for block ${number} or a later one`);
  const headers: Block[] = [];
  while (headers.length <= between) {
    const count = Math.min(AT_ONCE, Number(between) + 1 - headers.length);
    const numbers = Array.from({ length: count }, (_, index) => certificate.blockNumber - BigInt(headers.length + index));
    headers.push(...(await Promise.all(numbers.map((each) => header(client, each)))));
  }
  const verified = verifier.final({ certificate: certificate.raw, headers });
  if (verified.number !== number) throw new VerificationError(`asked for block ${number}, the answer is block ${verified.number}`);
  return verified;
}

/** Follows the committees up to an epoch: each one is signed by the one before. */
async function follow(client: AnyClient, verifier: Verifier, epoch: bigint): Promise<void> {
  if (verifier.pendingTrust !== null) await begin(client, verifier, verifier.pendingTrust);
  const before = verifier.trustPoint;
  while (verifier.epoch < epoch) {
    const known = verifier.epoch;
    const changes = await request<EpochChange[]>(client, 'corniche_getEpochChanges', numberToHex(known));
    if (verifier.advance(changes) === known) {
      throw new VerificationError(`the node does not know the committee after epoch ${known}`);
    }
  }
  if (verifier.trustPoint !== before) await verifier.save();
}

/** Begins at a trust point: its hash covers the block and the members. */
async function begin(client: AnyClient, verifier: Verifier, text: string): Promise<void> {
  const epoch = BigInt(epochOf(text, verifier.chainId));
  const [[change], committee] = await Promise.all([
    request<EpochChange[]>(client, 'corniche_getEpochChanges', numberToHex(epoch), '0x1'),
    request<CommitteeInfo | null>(client, 'corniche_getCommittee', numberToHex(epoch + 1n)),
  ]);
  if (!change || !committee) throw new VerificationError(`the node does not know the end of epoch ${epoch}: ask another node`);
  // Another call may have begun there meanwhile, and gone on.
  if (verifier.pendingTrust === text) verifier.trust({ text, change, committee });
}

async function header(client: AnyClient, number: bigint): Promise<Block> {
  const block = await request<Block | null>(client, 'eth_getBlockByNumber', numberToHex(number), false);
  if (!block) throw new VerificationError(`the node does not have block ${number}`);
  return block;
}

export interface VerifyAccountParameters extends VerifyBlockParameters {
  address: Address;
  /** Storage slots. */
  slots?: readonly Hex[];
}

/**
 * Returns an account and its slots at a final block, all values verified. A node has proofs for its newest 256 blocks.
 * `null` if the block has no certificate yet. Throws a `VerificationError` if a check fails.
 *
 * @example
 * const proven = await client.verifyAccount({ verifier, address });
 */
export async function verifyAccount(
  client: AnyClient,
  { verifier, blockNumber, address, slots = [] }: VerifyAccountParameters,
): Promise<(ProvenAccount & { header: FinalHeader }) | null> {
  const header = await verifyBlock(client, { verifier, ...(blockNumber === undefined ? {} : { blockNumber }) });
  if (!header) return null;
  const proof = await request<AccountProof>(client, 'eth_getProof', address, slots, { blockHash: header.hash });
  return { ...verifier.account({ stateRoot: header.stateRoot, address, slots, proof }), header };
}

/** Calls a method and returns its result unchanged. */
function request<Answer>(client: AnyClient, method: string, ...params: unknown[]): Promise<Answer> {
  return (client.request as unknown as (request: { method: string; params: unknown[] }) => Promise<Answer>)({ method, params });
}
