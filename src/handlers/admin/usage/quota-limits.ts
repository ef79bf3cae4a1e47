/** The limits of quotas in requests: a request changes the limits that it names. */
import { fail } from '../../../errors/refusal.ts';

export const bucketLimits = ['maxBytes', 'maxObjects', 'maxBytesPerObject'] as const;
export const accountLimits = ['maxBuckets', 'totalMaxBytes'] as const;

type Limits<Name extends string> = Readonly<Record<Name, number>>;
type LimitsChange<Name extends string> = Readonly<Partial<Record<Name, number | null | undefined>>>;

/** @throws MalformedJSON for a body that would change nothing */
export function assertAnyLimit<Name extends string>(
  change: LimitsChange<Name>,
  names: readonly Name[],
): void {
  if (names.some((name) => change[name] !== undefined)) return;
  throw fail('MalformedJSON', `The body names no limit; it takes ${names.join(', ')}.`);
}

/** A limit that the change does not name stays; null makes it unlimited. */
export const changeLimits = <Name extends string>(
  names: readonly Name[],
  present: Limits<Name> | undefined,
  change: LimitsChange<Name>,
): Limits<Name> => {
  const limitOf = (name: Name): number =>
    change[name] === undefined ? (present?.[name] ?? 0) : (change[name] ?? 0);
  // The cast: each name has its value.
  return Object.fromEntries(names.map((name) => [name, limitOf(name)])) as Limits<Name>;
};
