import type { Abi, Address } from 'viem';
import { getCode } from 'viem/actions';
import { InterfaceError, readAbi } from '../abi.ts';
import { VerificationError, interfaceOf, type VerifierSource } from '../verifier.ts';
import type { AnyClient } from './request.ts';

/** Most bytes of code that are read. */
const MOST_CODE_BYTES = 1 << 20;

export interface ContractAbiParameters {
  address: Address;
  blockNumber?: bigint;
  /** Location of `verifier.wasm`, which decompresses the code; only necessary if it is not found automatically. */
  module?: VerifierSource;
}

/**
 * Returns the ABI in a contract's code; `null` if there is no code or it contains no ABI. The author may have written
 * anything, so its names prove nothing. Throws an `InterfaceError` if the ABI is invalid.
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
