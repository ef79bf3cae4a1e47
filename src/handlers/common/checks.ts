/**
 * The checks of a configuration beyond its schema. A write ends at the first refusal; a dry run goes on and gathers all of them. The rules
 * of a configuration are written once: they call `at` for each part that can be refused by itself.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import { Refusal } from '../../base/errors.ts';
import { errorCatalogue } from '../../protocol/errors.ts';

export interface CheckedPart {
  /** The place in the JSON form, such as `Rule[0].Expiration`; '' for the whole document. */
  readonly path: string;
  /** What would be accepted; absent where the message of the refusal says it. */
  readonly right?: string;
}

export interface Checks {
  /** @returns undefined after a refusal in a dry run, where the other checks continue @throws the refusal, in a write */
  at<T>(part: CheckedPart, check: () => Awaitable<T>): Promise<T | undefined>;
}

/** Of a write. */
export const firstRefusal: Checks = { at: async (_part, check) => check() };

export interface PartRefusal extends CheckedPart {
  readonly code: string;
  readonly message: string;
}

export interface GatheredChecks extends Checks {
  readonly refusals: readonly PartRefusal[];
}

/** A dry run of a body within the limits of its schema; the bound is for the reply. */
const refusalsMax = 1_000;

/** Of a dry run. */
export function gatherRefusals(): GatheredChecks {
  const refusals: PartRefusal[] = [];
  return {
    refusals,
    async at(part, check) {
      try {
        return await check();
      } catch (cause) {
        if (!(cause instanceof Refusal)) throw cause;
        const { code, details } = cause;
        const message = details.message ?? errorCatalogue[code].message;
        if (refusals.length < refusalsMax) refusals.push({ ...part, code, message });
        return undefined;
      }
    },
  };
}

/** Checks each member of a list at its place. */
export async function checkEach<T>(
  checks: Checks,
  part: CheckedPart,
  { members, check }: { readonly members: readonly T[]; check(member: T): void },
): Promise<void> {
  await convertEach(checks, part, {
    members,
    convert(member) {
      check(member);
      return member;
    },
  });
}

/** Converts each member of a list into what is stored. A refused member stays as it is. */
export async function convertEach<T>(
  checks: Checks,
  { path, ...right }: CheckedPart,
  { members, convert }: { readonly members: readonly T[]; convert(member: T): Awaitable<T> },
): Promise<readonly T[]> {
  const converted: T[] = [];
  for (const [index, member] of members.entries()) {
    const part = { path: `${path}[${index}]`, ...right };
    converted.push((await checks.at(part, () => convert(member))) ?? member);
  }
  return converted;
}
