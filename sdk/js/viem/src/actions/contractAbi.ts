import type { Abi, Address } from 'viem';
import { getCode } from 'viem/actions';
import { InterfaceError, readAbi } from '../abi.ts';
import { VerificationError, interfaceOf, type VerifierSource } from '../verifier.ts';
import type { AnyClient } from './request.ts';

/** The most bytes of code that are looked at. */
const MOST_CODE_BYTES = 1 << 20;

export interface ContractAbiParameters {
  address: Address;
  blockNumber?: bigint;
  /** Where `verifier.wasm` is, where it is not found by itself: it unpacks the code. */
  module?: VerifierSource;
}

/**
 * The ABI that a contract carries in its own code. `null`: there is no code, or it carries none. It says what its author wants: a name in it
 * proves nothing. Throws an `InterfaceError` when what it carries is no ABI.
 *
 * @example
 * const abi = await client.contractAbi({ address });
 * const contract = abi && getContract({ address, abi, client });
 */
export async function contractAbi(client: AnyClient, { address, blockNumber, module }: ContractAbiParameters): Promise<Abi | null> {
  const code = await getCode(client, { address, ...(blockNumber === undefined ? {} : { blockNumber }) });
  if (!code) return null;
  if (code.length > 2 + 2 * MOST_CODE_BYTES) throw new InterfaceError(`the code has more than ${MOST_CODE_BYTES} bytes`);
  const text = await interfaceOf(code, module === undefined ? {} : { module }).catch((error: unknown) => {
    throw error instanceof VerificationError ? new InterfaceError(error.message) : error;
  });
  return text === null ? null : readAbi(text);
}
