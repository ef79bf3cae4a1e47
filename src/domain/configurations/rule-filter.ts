/** The filter of a rule of lifecycle or replication: which versions the rule applies to. */
import { memoizeEach } from '../../base/bounded-cache.ts';
import type { ConfigurationOf } from '../../protocol/schemas/families.ts';

type LifecycleRule = ConfigurationOf<'lifecycle'>['Rule'][number];
type ReplicationRule = ConfigurationOf<'replication'>['Rule'][number];
type Rule = Pick<LifecycleRule, 'Filter' | 'Prefix'> | Pick<ReplicationRule, 'Filter' | 'Prefix'>;

/** The conditions of one kind of rule on what a version has beside its key, in the form of And: tags are a list there. */
type ConditionsOf<R extends Rule> = Required<Omit<NonNullable<NonNullable<R['Filter']>['And']>, 'Prefix'>>;
type Conditions = ConditionsOf<LifecycleRule> &
  Omit<ConditionsOf<ReplicationRule>, keyof ConditionsOf<LifecycleRule>>;

/** What conditions read of a version. */
export interface FilteredVersion {
  readonly key: string;
  readonly size: number;
  readonly tags?: readonly (readonly [key: string, value: string])[] | undefined;
}

interface Condition<T> {
  /** What it is about, as refusals name it. */
  readonly about: 'Tags' | 'Object Size';
  isMet(expected: T, version: FilteredVersion): boolean;
}

/** A row for each element that the schema of either kind of rule has beside the prefix. */
const conditions: { readonly [Name in keyof Conditions]: Condition<Conditions[Name]> } = {
  Tag: {
    about: 'Tags',
    isMet: (expected, { tags = [] }) =>
      expected.every(({ Key, Value = '' }) => tags.some(([key, value]) => key === Key && value === Value)),
  },
  ObjectSizeGreaterThan: { about: 'Object Size', isMet: (expected, { size }) => size > expected },
  ObjectSizeLessThan: { about: 'Object Size', isMet: (expected, { size }) => size < expected },
};
const conditionNames = Object.keys(conditions) as readonly (keyof Conditions)[];

/** The conditions of a rule, from any of their places in the document. */
interface RuleFilter {
  readonly prefix: string;
  readonly ofVersion: Partial<Conditions>;
  /**
   * What the conditions of `ofVersion` are about. With any of them the rule applies to no upload and to no delete marker, which have
   * nothing of it.
   */
  readonly besideKey: readonly Condition<unknown>['about'][];
}

const isSet = (value: Conditions[keyof Conditions] | undefined): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined;

/** Cached for each rule, because every version of a bucket is compared with every rule. */
export const readRuleFilter = memoizeEach(({ Filter, Prefix }: Rule): RuleFilter => {
  const { And, Tag, ...others } = Filter ?? {};
  const from = And ?? { ...others, Tag: Tag === undefined ? [] : [Tag] };
  const { Prefix: prefix = Prefix ?? '', ...found } = from;
  const ofVersion: Partial<Conditions> = found;
  const besideKey = conditionNames
    .filter((name) => isSet(ofVersion[name]))
    .map((name) => conditions[name].about);
  return { prefix, ofVersion, besideKey };
});

/** Whether a version meets the filter of a rule. */
export function meetsFilter({ prefix, ofVersion }: RuleFilter, version: FilteredVersion): boolean {
  return version.key.startsWith(prefix) && conditionNames.every((name) => isMet(name, ofVersion, version));
}

function isMet<Name extends keyof Conditions>(
  name: Name,
  ofVersion: Partial<Conditions>,
  version: FilteredVersion,
): boolean {
  const expected: Conditions[Name] | undefined = ofVersion[name];
  return expected === undefined || conditions[name].isMet(expected, version);
}

/** Whether an upload or a delete marker meets it: these have a key only. */
export const keyMeetsFilter = ({ prefix, besideKey }: RuleFilter, key: string): boolean =>
  besideKey.length === 0 && key.startsWith(prefix);
