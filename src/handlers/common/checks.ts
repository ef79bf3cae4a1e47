/**
 * The checks of a configuration beyond its schema. A write ends at the first refusal; a dry run goes on and gathers all of them. The rules
 * of a configuration are written once: they call `at` for each part that can be refused by itself.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail, invalidArgument, Refusal } from '../../base/errors.ts';
import { drawId } from '../../domain/common/ids.ts';
import type { Random } from '../../ports/random.ts';
import { errorCatalogue } from '../../protocol/errors.ts';
import { utf8Length } from '../../request/parameters.ts';

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

interface Named {
  readonly ID?: string;
}

const idMax = 255;
const prefixMax = 1024;
const tagKeyMax = 128;
const tagValueMax = 256;

/** Gives an id to rules without one, as the public service does. */
export function withIds<R extends Named>(
  { random }: { readonly random: Random },
  rules: readonly R[],
): readonly (R & { readonly ID: string })[] {
  const ids = new Set<string>();
  return rules.map((rule) => {
    const ID = rule.ID === undefined || rule.ID === '' ? drawId(random) : rule.ID;
    if (ID.length > idMax)
      throw invalidArgument('ID', ID, `ID length should not exceed allowed limit of ${idMax}`);
    if (ids.has(ID))
      throw invalidArgument('ID', ID, 'Rule ID must be unique. Found same ID for more than one rule');
    ids.add(ID);
    // First, as in the schema, so that the stored text has the same order where the gateway drew the id.
    return Object.assign({ ID }, rule, { ID });
  });
}

export function checkPrefix(prefix: string | undefined): void {
  if (prefix !== undefined && utf8Length(prefix) > prefixMax)
    throw fail('InvalidRequest', `The maximum size of a prefix is ${prefixMax}.`);
}

export function checkFilterTags(tags: readonly { readonly Key: string; readonly Value?: string }[]): void {
  const keys = new Set<string>();
  for (const { Key, Value = '' } of tags) {
    if (Key === '' || Key.length > tagKeyMax)
      throw fail('InvalidRequest', `A Tag's Key must be a length between 1 and ${tagKeyMax}.`);
    if (Value.length > tagValueMax)
      throw fail('InvalidRequest', `A Tag's Value must be a length between 0 and ${tagValueMax}.`);
    if (keys.has(Key)) throw fail('InvalidRequest', 'Duplicate Tag Keys are not allowed.');
    keys.add(Key);
  }
}

/** The bucket's name in an ARN; undefined for another text. */
export const bucketOfArn = (arn: string): string | undefined =>
  /^arn:[a-z0-9-]+:s3:::([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])$/.exec(arn)?.[1];
