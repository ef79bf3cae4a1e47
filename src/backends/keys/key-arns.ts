/** The ARNs of keys that are named by alias or id. They are cached. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Clock } from '../../ports/clock.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import type { Cause } from '../../ports/trace.ts';
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
  readonly #cacheMs: number;
  readonly #known = new BoundedCache<Known>({ name: 'kms-key-arns', entriesMax: namesMax });

  constructor(
    call: KmsCall,
    { clock, cacheMs }: { readonly clock: Pick<Clock, 'elapsed'>; readonly cacheMs: number },
  ) {
    this.#call = call;
    this.#clock = clock;
    this.#cacheMs = cacheMs;
  }

  /** The ARN where the service need not be asked; `stale`: also one that was found too long ago. */
  known(name: string, age: 'fresh' | 'stale'): string | undefined {
    if (isKeyArn(name)) return name;
    const known = this.#known.get(name);
    return known !== undefined && (age === 'stale' || this.#clock.elapsed() < known.until)
      ? known.arn
      : undefined;
  }

  /** @throws KeyFailure `unknown-key` */
  async find(name: string, cause?: Cause): Promise<string> {
    const known = this.known(name, 'fresh');
    if (known !== undefined) return known;
    const { KeyMetadata } = await this.#call('DescribeKey', { KeyId: name }, cause);
    const arn = (KeyMetadata as { readonly Arn?: unknown } | undefined)?.Arn;
    if (typeof arn !== 'string' || !isKeyArn(arn))
      throw new KeyFailure('unavailable', 'DescribeKey was answered without the ARN of a key');
    this.#known.set(name, { arn, until: this.#clock.elapsed() + this.#cacheMs });
    return arn;
  }
}
