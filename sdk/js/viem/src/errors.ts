import { BaseError, type Hash } from 'viem';

/** A transaction left the pool and will not be executed. */
export class TransactionDroppedError extends BaseError {
  override name = 'TransactionDroppedError';

  constructor(
    readonly hash: Hash,
    /** In the node's words. */
    readonly reason: string,
  ) {
    super(`Transaction ${hash} was dropped: ${reason}.`);
  }
}

/** Another transaction of the same sender and nonce took this one's place. */
export class TransactionReplacedError extends BaseError {
  override name = 'TransactionReplacedError';

  constructor(
    readonly hash: Hash,
    readonly by: Hash,
  ) {
    super(`Transaction ${hash} was replaced by ${by}.`);
  }
}

/** No certificate came within the time given. It may still come. */
export class CertificateTimeoutError extends BaseError {
  override name = 'CertificateTimeoutError';

  constructor(
    readonly what: string,
    readonly waited: number,
  ) {
    super(`There is no certificate for ${what} after ${waited} ms.`, { metaMessages: ['It may still come.'] });
  }
}
