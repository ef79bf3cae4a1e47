/**
 * Limits how often log-ins may fail: by access key and by address, in each process. Requests with a signature are not limited, so
 * failed log-ins cannot lock an operator out of the command line.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../errors/refusal.ts';
import { parsePeer } from '../policy/conditions/addresses.ts';

const windowMs = 15 * 60_000;
const limits = { key: 10, address: 30 } as const;
const entriesMax = 4_096;

interface Failures {
  readonly since: number;
  readonly count: number;
}

/** All addresses of an IPv6 network of 64 bits are one: a client can use any of them. IPv4 addresses are in `::ffff:0:0/96`. */
export function networkOf(address: string): string {
  const words = parsePeer(address);
  if (words === undefined) return address;
  const [first, second, third] = words;
  return first === 0 && second === 0 && third === 0xffff ? words.join('.') : `${first}.${second}/64`;
}

export class LoginThrottle {
  readonly #failures = new BoundedCache<Failures>({
    name: 'login-failures',
    entriesMax: 2 * entriesMax,
    bytes: { max: 4 * 1024 * 1024, sizeOf: (_, key) => 100 + 2 * key.length },
  });

  /** @throws TooManyRequests */
  admit(now: number, tried: Tried): void {
    for (const [key, max] of placesOf(tried)) {
      const known = this.#current(now, key);
      if (known === undefined || known.count < max) continue;
      const retryAfter = Math.ceil((known.since + windowMs - now) / 1000);
      throw fail('TooManyRequests', {
        message: `Too many log-ins failed. Try again in ${retryAfter} seconds, or sign the requests.`,
        retryAfter,
      });
    }
  }

  failed(now: number, tried: Tried): void {
    for (const [key] of placesOf(tried)) {
      const { since = now, count = 0 } = this.#current(now, key) ?? {};
      this.#failures.set(key, { since, count: count + 1 });
    }
  }

  #current(now: number, key: string): Failures | undefined {
    const known = this.#failures.get(key);
    return known === undefined || now - known.since >= windowMs ? undefined : known;
  }
}

interface Tried {
  readonly accessKey: string;
  readonly source: string;
}

const placesOf = ({ accessKey, source }: Tried): readonly (readonly [string, number])[] => [
  [`key ${accessKey}`, limits.key],
  [`address ${networkOf(source)}`, limits.address],
];
