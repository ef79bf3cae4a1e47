/** Rules that the rules of lifecycle and replication have in common. */

import { fail } from '../../base/errors.ts';
import { drawId } from '../../domain/common/ids.ts';
import type { Random } from '../../ports/random.ts';
import { utf8Length } from '../../request/parameters.ts';

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
      throw fail('InvalidArgument', {
        message: `ID length should not exceed allowed limit of ${idMax}`,
        elements: { ArgumentName: 'ID', ArgumentValue: ID },
      });
    if (ids.has(ID))
      throw fail('InvalidArgument', {
        message: 'Rule ID must be unique. Found same ID for more than one rule',
        elements: { ArgumentName: 'ID', ArgumentValue: ID },
      });
    ids.add(ID);
    // First, as in the schema, so that the stored text has the same order where the gateway drew the id.
    return Object.assign({ ID }, rule, { ID });
  });
}

export function checkPrefix(prefix: string | undefined): void {
  if (prefix !== undefined && utf8Length(prefix) > prefixMax)
    throw fail('InvalidRequest', `The maximum size of a prefix is ${prefixMax}.`);
}

export function checkFilterTags(tags: readonly { readonly Key: string; readonly Value: string }[]): void {
  const keys = new Set<string>();
  for (const { Key, Value } of tags) {
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
