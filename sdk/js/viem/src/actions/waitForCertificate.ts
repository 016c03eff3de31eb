import type { Hash } from 'viem';
import { CertificateTimeoutError, TransactionDroppedError, TransactionReplacedError } from '../errors.ts';
import type { Certificate } from '../format.ts';
import { getCertificate, getTransactionStatus } from './queries.ts';
import type { AnyClient } from './request.ts';

export type WaitForCertificateParameters = {
  /** Polling interval in milliseconds; by default that of the client. */
  pollingInterval?: number;
  /** Timeout in milliseconds, after which it throws a `CertificateTimeoutError`; 30 seconds by default. */
  timeout?: number;
  /** Cancels the wait with the signal's reason. */
  signal?: AbortSignal;
} & (
  | { /** A transaction. */ hash: Hash; blockNumber?: never; blockHash?: never }
  | { blockNumber: bigint; hash?: never; blockHash?: never }
  | { blockHash: Hash; hash?: never; blockNumber?: never }
);

/**
 * Waits until a transaction or a block is final, and returns its certificate. A reverted transaction becomes final as
 * well; see its receipt. Also waits for a transaction that the node does not know.
 *
 * Throws a `TransactionDroppedError`, a `TransactionReplacedError` or a `CertificateTimeoutError`.
 *
 * @example
 * const hash = await wallet.sendTransaction({ to, value });
 * const certificate = await client.waitForCertificate({ hash });
 */
export async function waitForCertificate(
  client: AnyClient,
  { pollingInterval = client.pollingInterval, timeout = 30_000, signal, hash, blockNumber, blockHash }: WaitForCertificateParameters,
): Promise<Certificate> {
  const until = Date.now() + timeout;
  for (;;) {
    signal?.throwIfAborted();
    const certificate = hash ? await ofTransaction(client, hash) : await getCertificate(client, blockHash ? { blockHash } : { blockNumber: blockNumber! });
    if (certificate) return certificate;
    if (Date.now() >= until) {
      throw new CertificateTimeoutError(hash ? `transaction ${hash}` : `block ${blockHash ?? blockNumber}`, timeout);
    }
    await pause(Math.min(pollingInterval, until - Date.now()), signal);
  }
}

async function ofTransaction(client: AnyClient, hash: Hash): Promise<Certificate | null> {
  const status = await getTransactionStatus(client, { hash });
  switch (status?.status) {
    case 'certified':
      return getCertificate(client, { blockNumber: status.blockNumber });
    case 'dropped':
      throw new TransactionDroppedError(hash, status.reason);
    case 'replaced':
      throw new TransactionReplacedError(hash, status.by);
    default:
      return null;
  }
}

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    // The signal may have been aborted during the request.
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, Math.max(milliseconds, 0));
    signal?.addEventListener('abort', stop, { once: true });
  });
}
