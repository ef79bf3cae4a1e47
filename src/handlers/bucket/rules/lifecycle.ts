/** GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycleConfiguration. */
import { bucketLifecycle } from '../../../domain/configurations/families.ts';
import type { Lifecycle, LifecycleRule } from '../../../domain/configurations/lifecycle.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Authorized } from '../../../gateway/request.ts';
import { listLifecycleBucket } from '../../../metadata/objects/ages.ts';
import {
  lifecycleConfiguration,
  lifecycleLimits,
  minimumSizeField,
} from '../../../protocol/schemas/bucket/lifecycle.ts';
import { document } from '../../common/document.ts';
import { header } from '../../common/own-headers.ts';
import { checkLifecycleRule } from './lifecycle-checks.ts';
import { withIds } from './rule-checks.ts';

const rulesMax = 1000;
/** More slots would make a pass over an idle bucket dearer, and no partition much smaller. */
const ageSlotsMax = 64;
const minimumSizeHeader = 'transition-default-minimum-object-size';

function readMinimumSize(request: Pick<Authorized, 'own'>): Lifecycle['minimumSize'] {
  const given = header(request, minimumSizeHeader);
  if (given === undefined || given === 'all_storage_classes_128K' || given === 'varies_by_storage_class')
    return given;
  throw fail('InvalidArgument', { elements: { ArgumentName: minimumSizeHeader, ArgumentValue: given } });
}

const configuration = document<Lifecycle>({
  family: bucketLifecycle,
  root: 'LifecycleConfiguration',
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
