/** The ARNs of keys that are named by alias or id. They are cached; an expired one is used while the service does not answer. */
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { Clock } from '../../../ports/clock.ts';
import { KeyFailure } from '../../../ports/crypto/key-provider.ts';
import type { Cause } from '../../../ports/trace.ts';
import type { KmsCall } from './call.ts';

const namesMax = 1_024;

interface Known {
  readonly arn: string;
  readonly until: number;
}

export const isKeyArn = (name: string): boolean => /^arn:[^:]+:kms:[^:]*:[^:]*:key\/.+$/.test(name);

export class KeyArns {
  readonly #call: KmsCall;
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #keptMs: number;
  readonly #known = new BoundedCache<Known>({ name: 'kms-key-arns', entriesMax: namesMax });

  constructor(
    call: KmsCall,
    { clock, keptMs }: { readonly clock: Pick<Clock, 'elapsed'>; readonly keptMs: number },
  ) {
    this.#call = call;
    this.#clock = clock;
    this.#keptMs = keptMs;
  }

  /** @throws KeyFailure `unknown-key` */
  async find(name: string, cause?: Cause): Promise<string> {
    if (isKeyArn(name)) return name;
    const known = this.#known.get(name);
    if (known !== undefined && this.#clock.elapsed() < known.until) return known.arn;
    try {
      const { KeyMetadata } = await this.#call('DescribeKey', { KeyId: name }, cause);
      const arn = (KeyMetadata as { readonly Arn?: unknown } | undefined)?.Arn;
      if (typeof arn !== 'string' || !isKeyArn(arn))
        throw new KeyFailure('unavailable', 'DescribeKey was answered without the ARN of a key');
      this.#known.set(name, { arn, until: this.#clock.elapsed() + this.#keptMs });
      return arn;
    } catch (error) {
      if (known !== undefined && error instanceof KeyFailure && error.reason === 'unavailable')
        return known.arn;
      throw error;
    }
  }
}
