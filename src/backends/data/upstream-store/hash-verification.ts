/**
 * Whether an upstream can be trusted to verify contents: it must refuse a content that differs from the signed hash, and its ETags must
 * be MD5s. That is the public API, but not every service does so; each upstream is tested once.
 */

import { toHex } from '../../../base/text/hex.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Hasher } from '../../../ports/cryptography.ts';
import { encryptionIn, etagIn, isMd5, UpstreamError } from './answers.ts';
import type { UpstreamClient } from './client.ts';

interface HashVerificationOptions {
  readonly client: UpstreamClient;
  readonly prefix: string;
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'elapsed'>;
}

/** Its name differs from those of extents, and from what other applications may keep in a bucket without a prefix. */
const name = 'sluice-probe';
/** A short time-out: the answer only saves work. */
const timeoutMs = 5_000;
/** An upstream that did not answer is tested again. */
const againMs = 60_000;

export const wrongSha256 = 'XAmzContentSHA256Mismatch';

export class HashVerification {
  readonly #options: HashVerificationOptions;
  /** How the upstream encrypted the object whose ETag was tested; undefined where it failed the test. */
  #verified: Promise<string | undefined> | undefined;
  #notBefore = 0;

  constructor(options: HashVerificationOptions) {
    this.#options = options;
  }

  async isVerified(): Promise<boolean> {
    return (await this.#ask()) !== undefined;
  }

  /** Whether an answer is consistent with the test; otherwise the upstream is tested again. */
  async holdsFor(headers: Readonly<Record<string, string>>): Promise<boolean> {
    const isSame = isMd5(etagIn(headers), headers) && (await this.#ask()) === encryptionIn(headers);
    if (!isSame) this.#verified = undefined;
    return isSame;
  }

  async #ask(): Promise<string | undefined> {
    const now = this.#options.clock.elapsed();
    if (this.#verified === undefined && now < this.#notBefore) return undefined;
    this.#verified ??= this.#probe().catch(() => {
      this.#verified = undefined;
      this.#notBefore = now + againMs;
      return undefined;
    });
    return this.#verified;
  }

  async #probe(): Promise<string | undefined> {
    const { client, prefix, hasher } = this.#options;
    const body = new TextEncoder().encode('Does this service compare what it is sent with its SHA-256?');
    const request = { key: `${prefix}${name}`, timeoutMs };
    const put = (sha256: string) => client.ask({ ...request, method: 'PUT', body, sha256 });
    try {
      const { headers } = await put(toHex(hasher.once('sha256', body)));
      const isReported =
        isMd5(etagIn(headers), headers) && etagIn(headers) === toHex(hasher.once('md5', body));
      if (!isReported) return undefined;
      const isTaken = await put(hasher.sha256Hex('something else')).then(
        () => true,
        (cause: unknown) => {
          if (cause instanceof UpstreamError && cause.code === wrongSha256) return false;
          throw cause;
        },
      );
      return isTaken ? undefined : encryptionIn(headers);
    } finally {
      await client.ask({ ...request, method: 'DELETE' }).catch(() => {});
    }
  }
}
