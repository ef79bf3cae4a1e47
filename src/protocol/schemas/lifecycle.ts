/**
 * The body of the lifecycle operations, both versions of it: a rule has a Filter, or the Prefix of the first version.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html
 */
import {
  bool,
  checked,
  date,
  documented,
  element,
  int,
  limitedByHandler,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import type { XmlLimits } from '../formats/xml-parse.ts';
import { configuration } from './common.ts';
import { ruleFilter } from './rule-filter.ts';

/** Without a value it matches the tag with an empty value. */
const tag = element({ Key: text, Value: optional(text) });

const filter = ruleFilter(tag, {
  ObjectSizeGreaterThan: optional(int({ min: 0 })),
  ObjectSizeLessThan: optional(int({ min: 0 })),
});

/** Any name; the handler checks the classes of this service. */
const storageClass = token;

const transition = element({
  Date: optional(date),
  Days: optional(documented(int(), { minimum: 0 })),
  StorageClass: storageClass,
});

const newerVersions = optional(documented(int(), { minimum: 1, maximum: 100 }));

const noncurrentTransition = element({
  NoncurrentDays: optional(documented(int(), { minimum: 0 })),
  NewerNoncurrentVersions: newerVersions,
  StorageClass: storageClass,
});

const transitionsMax = 20;

const rule = checked(
  element({
    ID: optional(documented(text, { maxLength: 255 })),
    Status: oneOf('Enabled', 'Disabled'),
    /** From the first version of the API, in place of the filter. */
    Prefix: optional(text),
    Filter: optional(filter),
    Expiration: optional(
      element({
        Date: optional(date),
        Days: optional(documented(int(), { minimum: 1 })),
        ExpiredObjectDeleteMarker: optional(bool),
      }),
    ),
    Transition: many(transition, { max: transitionsMax }),
    NoncurrentVersionExpiration: optional(
      element({
        NoncurrentDays: optional(documented(int(), { minimum: 1 })),
        NewerNoncurrentVersions: newerVersions,
      }),
    ),
    NoncurrentVersionTransition: many(noncurrentTransition, { max: transitionsMax }),
    AbortIncompleteMultipartUpload: optional(
      element({ DaysAfterInitiation: documented(int(), { minimum: 1 }) }),
    ),
  }),
  (found) =>
    (found.Filter === undefined) === (found.Prefix === undefined)
      ? 'must hold a Filter, or the Prefix of the first version instead'
      : undefined,
);

/** A thousand rules with everything in them, but for filters of many tags each. */
export const lifecycleLimits: XmlLimits = { maxBytes: 1024 * 1024, elementsMax: 50_000 };

const fields = { Rule: documented(many(rule, { ...limitedByHandler, min: 1 }), { maxItems: 1_000 }) };
/** The JSON form has a field for what XML clients send in a header. */
export const minimumSizeField = 'TransitionDefaultMinimumObjectSize';

/** Root `LifecycleConfiguration`. */
export const lifecycleConfiguration = configuration('lifecycle', 'LifecycleConfiguration', element(fields), {
  json: element({
    ...fields,
    [minimumSizeField]: optional(oneOf('all_storage_classes_128K', 'varies_by_storage_class')),
  }),
});
