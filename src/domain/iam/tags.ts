/** The tags of users, roles and policies. */
import { fail } from '../../errors/refusal.ts';
import type { IamTag } from '../../metadata/iam.ts';

const tagsMax = 50;
/** The limit for all tags of an entity together, because its row holds them. */
const charactersMax = 4_096;

/** @throws InvalidInput, LimitExceeded */
export function mergeTags(present: readonly IamTag[], given: readonly IamTag[]): readonly IamTag[] {
  const merged = new Map(present.map((tag) => [tag[0].toLowerCase(), tag]));
  const seen = new Set<string>();
  for (const tag of given) {
    const key = tag[0].toLowerCase();
    if (seen.has(key))
      throw fail('InvalidInput', 'Duplicate tag keys found. Please note that Tag keys are case insensitive.');
    if (key.startsWith('aws:')) throw fail('InvalidInput', 'Tag keys that begin with aws: are reserved.');
    seen.add(key);
    merged.set(key, tag);
  }
  const tags = [...merged.values()];
  if (tags.length > tagsMax) throw fail('LimitExceeded', `Cannot exceed quota for TagsPerEntity: ${tagsMax}`);
  if (tags.reduce((sum, [key, value]) => sum + key.length + value.length, 0) > charactersMax)
    throw fail('LimitExceeded', `The tags of an entity have at most ${charactersMax} characters together.`);
  return tags;
}

export function withoutTags(present: readonly IamTag[], keys: readonly string[]): readonly IamTag[] {
  const gone = new Set(keys.map((key) => key.toLowerCase()));
  return present.filter(([key]) => !gone.has(key.toLowerCase()));
}
