/** GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycleConfiguration. */
import { fail } from '../../base/errors.ts';
import { bucketLifecycle } from '../../domain/configurations/families.ts';
import type { Lifecycle, LifecycleRule } from '../../domain/configurations/lifecycle-rules.ts';
import { readRuleFilter } from '../../domain/configurations/rule-filter.ts';
import { listLifecycleBucket } from '../../metadata/objects/ages.ts';
import { findStorageClassName, waterfall } from '../../ports/storage-classes.ts';
import {
  lifecycleConfiguration,
  lifecycleLimits,
  minimumSizeField,
} from '../../protocol/schemas/lifecycle.ts';
import { readChoice } from '../../request/parameters.ts';
import type { Authorized } from '../../request/request.ts';
import { type Checks, checkFilterTags, checkPrefix, convertEach, withIds } from '../common/checks.ts';
import { document } from '../common/document.ts';

const rulesMax = 1000;
/** More slots would make a pass over an idle bucket dearer, and no partition much smaller. */
const ageSlotsMax = 64;
const minimumSizeHeader = 'transition-default-minimum-object-size';

const readMinimumSize = (request: Pick<Authorized, 'own'>): Lifecycle['minimumSize'] =>
  readChoice(request, minimumSizeHeader, ['all_storage_classes_128K', 'varies_by_storage_class']);

const configuration = document<Lifecycle, 'lifecycle'>({
  family: bucketLifecycle,
  schema: lifecycleConfiguration,
  unset: 'NoSuchLifecycleConfiguration',
  limits: lifecycleLimits,
  headers: ({ minimumSize = 'all_storage_classes_128K' }) => [[`*-${minimumSizeHeader}`, minimumSize]],
  amend: (row, value, { metadata }) => {
    if (row.mfaDelete === true && value !== undefined)
      throw fail(
        'InvalidBucketState',
        'Lifecycle configurations are not allowed on a bucket with MFA delete.',
      );
    if (value === undefined || row.ageSlots !== undefined) return row;
    // Where the store keeps a partition as one ordered range, more of them spread nothing.
    return { ...row, ageSlots: metadata.split === undefined ? 1 : Math.min(row.shards, ageSlotsMax) };
  },
  then: async (_, { bucket, requestId }) => [listLifecycleBucket(bucket, requestId)],
  headerField: {
    field: minimumSizeField,
    header: minimumSizeHeader,
    read: ({ minimumSize }) => minimumSize,
  },
  validate: async (ctx, request, { Rule: sent }) => {
    const { checks } = request;
    await checks.at({ path: 'Rule', right: `at most ${rulesMax} rules` }, () => {
      if (sent.length > rulesMax)
        throw fail(
          'InvalidRequest',
          `The number of lifecycle rules must not exceed the allowed limit of ${rulesMax} rules.`,
        );
    });
    await checks.at({ path: 'Rule', right: 'a Filter in each rule, or a Prefix in each' }, () => {
      const isFiltered = sent.some(({ Filter }) => Filter !== undefined);
      if (isFiltered && sent.some(({ Prefix }) => Prefix !== undefined))
        throw fail(
          'InvalidRequest',
          'Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.',
        );
    });
    const checked: LifecycleRule[] = [];
    for (const [index, rule] of sent.entries())
      checked.push(await checkLifecycleRule(checks, rule, `Rule[${index}]`));
    const right = 'a different ID of at most 255 characters in each rule';
    const Rule = (await checks.at({ path: 'Rule', right }, () => withIds(ctx, checked))) ?? checked;
    const minimumSize = readMinimumSize(request);
    return minimumSize === undefined ? { Rule } : { Rule, minimumSize };
  },
});

export const lifecycle = configuration.configuration;
export const GetBucketLifecycleConfiguration = configuration.get;
export const PutBucketLifecycleConfiguration = configuration.put;
export const DeleteBucketLifecycleConfiguration = configuration.remove;

// Checks of lifecycle rules beyond their schema, with the public API's own refusals.

const dayMs = 86_400_000;
const daysMax = 2 ** 31 - 1;
const newerVersionsMax = 100;

const malformed = (message: string) => fail('MalformedXML', message);
const invalid = (message: string) => fail('InvalidArgument', message);
const refused = (message: string) => fail('InvalidRequest', message);

/** The rule as it is stored: with the canonical names of its storage classes. */
async function checkLifecycleRule(checks: Checks, rule: LifecycleRule, path: string): Promise<LifecycleRule> {
  const right = `a storage class that objects can move to: ${waterfall.join(', ')}`;
  const stored = {
    ...rule,
    Transition: await convertEach(
      checks,
      { path: `${path}.Transition`, right },
      { members: rule.Transition, convert: withWireClass },
    ),
    NoncurrentVersionTransition: await convertEach(
      checks,
      { path: `${path}.NoncurrentVersionTransition`, right },
      { members: rule.NoncurrentVersionTransition, convert: withWireClass },
    ),
  };
  for (const [field, check] of ruleChecks)
    await checks.at({ path: field === '' ? path : `${path}.${field}` }, () => check(stored));
  return stored;
}

/** In the order in which the first refusal answers a write. */
const ruleChecks: readonly (readonly [field: string, (rule: LifecycleRule) => void])[] = [
  ['Filter', checkFilter],
  ['', checkActions],
  ['Expiration', checkExpiration],
  ['Transition', checkTransitions],
  ['NoncurrentVersionTransition', checkNoncurrent],
  ['AbortIncompleteMultipartUpload', checkAbort],
];

function checkAbort({ AbortIncompleteMultipartUpload: abort }: LifecycleRule): void {
  if (abort !== undefined)
    checkCount(abort.DaysAfterInitiation, {
      name: 'DaysAfterInitiation',
      of: 'AbortIncompleteMultipartUpload action',
    });
}

function withWireClass<T extends { readonly StorageClass: string }>(transition: T): T {
  const StorageClass = findStorageClassName(transition.StorageClass);
  if (StorageClass === undefined || !waterfall.includes(StorageClass))
    throw malformed(`${transition.StorageClass} is not a storage class that a Transition can lead to`);
  return { ...transition, StorageClass };
}

function checkCount(
  count: number | undefined,
  {
    name,
    of,
    min = 1,
    max = daysMax,
  }: { readonly name: string; readonly of: string; readonly min?: number; readonly max?: number },
): void {
  if (count === undefined) return;
  if (count < min)
    throw invalid(`'${name}' for ${of} must be a ${min === 0 ? 'nonnegative' : 'positive'} integer`);
  if (count > max) throw invalid(`'${name}' for ${of} must not exceed ${max}`);
}

function checkFilter(rule: LifecycleRule): void {
  const { prefix, ofVersion } = readRuleFilter(rule);
  const { Tag: tags = [], ObjectSizeGreaterThan: above, ObjectSizeLessThan: below } = ofVersion;
  checkPrefix(prefix);
  checkFilterTags(tags);
  if (above !== undefined && below !== undefined && below <= above)
    throw refused("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.");
}

function checkActions(rule: LifecycleRule): void {
  const hasAction =
    rule.Expiration !== undefined ||
    rule.Transition.length > 0 ||
    rule.NoncurrentVersionExpiration !== undefined ||
    rule.NoncurrentVersionTransition.length > 0 ||
    rule.AbortIncompleteMultipartUpload !== undefined;
  if (!hasAction) throw refused('At least one action needs to be specified in a rule.');
  const [about] = readRuleFilter(rule).besideKey;
  const markerOrUpload =
    rule.Expiration?.ExpiredObjectDeleteMarker !== undefined
      ? 'ExpiredObjectDeleteMarker'
      : rule.AbortIncompleteMultipartUpload !== undefined
        ? 'AbortIncompleteMultipartUpload'
        : undefined;
  if (markerOrUpload !== undefined && about !== undefined)
    throw refused(`${markerOrUpload} cannot be specified with ${about}.`);
}

function checkMidnight(date: string | undefined): void {
  if (date !== undefined && Date.parse(date) % dayMs !== 0) throw invalid("'Date' must be at midnight GMT");
}

function checkExpiration({ Expiration }: LifecycleRule): void {
  if (Expiration === undefined) return;
  const { Date: date, Days, ExpiredObjectDeleteMarker } = Expiration;
  if ([date, Days, ExpiredObjectDeleteMarker].filter((each) => each !== undefined).length !== 1)
    throw malformed('Expiration must hold one of Days, Date and ExpiredObjectDeleteMarker');
  checkCount(Days, { name: 'Days', of: 'Expiration action' });
  checkMidnight(date);
}

const moment = ({ Date: date, Days }: { readonly Date?: string; readonly Days?: number }): number =>
  date === undefined ? (Days ?? 0) : Date.parse(date) / dayMs;

function checkTransitions(rule: LifecycleRule): void {
  const { Transition: transitions, Expiration } = rule;
  const place = `filter '(prefix=${readRuleFilter(rule).prefix})'`;
  for (const { Date: date, Days } of transitions) {
    if ((date === undefined) === (Days === undefined))
      throw malformed('A Transition must hold one of Days and Date');
    checkCount(Days, { name: 'Days', of: 'Transition action', min: 0 });
    checkMidnight(date);
  }
  const timed = [
    ...transitions,
    ...(Expiration?.ExpiredObjectDeleteMarker === undefined && Expiration ? [Expiration] : []),
  ];
  if (timed.some(({ Date: date }) => date !== undefined) && timed.some(({ Days }) => Days !== undefined))
    throw refused(
      `Found mixed 'Date' and 'Days' based Expiration and Transition actions in lifecycle rule for ${place}`,
    );
  checkOrder(
    transitions.map((each) => ({ storageClass: each.StorageClass, at: moment(each) })),
    { action: 'Transition', place },
  );
  const last = Math.max(-1, ...transitions.map(moment));
  if (
    Expiration !== undefined &&
    Expiration.ExpiredObjectDeleteMarker === undefined &&
    moment(Expiration) <= last
  ) {
    const unit = Expiration.Date === undefined ? 'Days' : 'Date';
    throw invalid(
      `'${unit}' in the Expiration action for ${place} must be ${unit === 'Days' ? 'greater' : 'later'} than '${unit}' in the Transition action`,
    );
  }
}

interface Step {
  readonly storageClass: string;
  readonly at: number;
}

/** Each class once, and a colder one only after every warmer one. */
function checkOrder(
  steps: readonly Step[],
  { action, place }: { readonly action: string; readonly place: string },
): void {
  if (new Set(steps.map(({ storageClass }) => storageClass)).size < steps.length)
    throw refused(`'StorageClass' must be different for '${action}' actions in same 'Rule' with ${place}`);
  const falling = [...steps].sort(
    (a, b) => waterfall.indexOf(a.storageClass) - waterfall.indexOf(b.storageClass),
  );
  falling.forEach((step, index) => {
    const before = falling[index - 1];
    if (before !== undefined && step.at <= before.at)
      throw invalid(
        `The ${action} action for StorageClass '${step.storageClass}' for ${place} must come later than the one for StorageClass '${before.storageClass}'`,
      );
  });
}

function checkNoncurrent(rule: LifecycleRule): void {
  const { NoncurrentVersionExpiration: expiration, NoncurrentVersionTransition: transitions } = rule;
  const place = `filter '(prefix=${readRuleFilter(rule).prefix})'`;
  for (const { name, action } of [
    ...(expiration === undefined ? [] : [{ name: 'NoncurrentVersionExpiration', action: expiration }]),
    ...transitions.map((action) => ({ name: 'NoncurrentVersionTransition', action })),
  ]) {
    const { NoncurrentDays, NewerNoncurrentVersions } = action;
    if (NoncurrentDays === undefined) throw malformed(`${name} must hold NoncurrentDays`);
    checkCount(NoncurrentDays, {
      name: 'NoncurrentDays',
      of: `${name} action`,
      min: name === 'NoncurrentVersionExpiration' ? 1 : 0,
    });
    checkCount(NewerNoncurrentVersions, {
      name: 'NewerNoncurrentVersions',
      of: `${name} action`,
      max: newerVersionsMax,
    });
    if (NewerNoncurrentVersions !== undefined && rule.Filter === undefined)
      throw refused('NewerNoncurrentVersions can only be specified with a Filter.');
  }
  checkOrder(
    transitions.map(({ StorageClass, NoncurrentDays = 0 }) => ({
      storageClass: StorageClass,
      at: NoncurrentDays,
    })),
    { action: 'NoncurrentVersionTransition', place },
  );
  const last = Math.max(-1, ...transitions.map(({ NoncurrentDays = 0 }) => NoncurrentDays));
  if (expiration?.NoncurrentDays !== undefined && expiration.NoncurrentDays <= last)
    throw invalid(
      `'NoncurrentDays' in the NoncurrentVersionExpiration action for ${place} must be greater than 'NoncurrentDays' in the NoncurrentVersionTransition action`,
    );
}
