import { BaseError, type Hash } from 'viem';

/** The transaction left the pool and will not be executed. */
export class TransactionDroppedError extends BaseError {
  override name = 'TransactionDroppedError';

  constructor(
    readonly hash: Hash,
    /** The node's reason. */
    readonly reason: string,
  ) {
    super(`Transaction ${hash} was dropped: ${reason}.`);
  }
}

/** Another transaction with the same sender and nonce replaced this one. */
export class TransactionReplacedError extends BaseError {
  override name = 'TransactionReplacedError';

  constructor(
    readonly hash: Hash,
    readonly by: Hash,
  ) {
    super(`Transaction ${hash} was replaced by ${by}.`);
  }
}

/** No certificate within the timeout. It may still come. */
export class CertificateTimeoutError extends BaseError {
  override name = 'CertificateTimeoutError';

  constructor(
    readonly what: string,
    readonly waited: number,
  ) {
    super(`There is no certificate for ${what} after ${waited} ms.`, { metaMessages: ['It may still come.'] });
  }
}
