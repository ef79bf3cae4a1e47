/** Rows about the configurations of a bucket as JSON: one pair of operations for every family. */
import type { Json } from '../../../base/text/strict-json.ts';
import {
  type JsonReader,
  jsonAny,
  jsonBoolean,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../formats/json.ts';
import { configurationFamilies, configurationShapes } from '../../schemas/bucket/families.ts';
import { noResource } from './resources.ts';
import { type AdminRows, longText } from './row.ts';

/** The family, which the path names, decides which schema reads the body: the handler reads it. */
const document: JsonReader<Json> = Object.assign(
  // The cast: the body of a request is always there, if only as `{}`.
  (value: Json | undefined): Json => value as Json,
  {
    schema: {
      anyOf: configurationFamilies.map((family) => ({
        title: family,
        ...configurationShapes[family].schema,
      })),
    },
  },
);

/** As that of the longest XML: a lifecycle of a thousand rules. */
const bodyMax = 1024 * 1024;

const written = jsonObject({
  isStored: jsonBoolean,
  refusals: jsonRows(
    jsonObject({
      path: longText,
      code: jsonText(),
      message: longText,
      right: jsonOptional(longText),
    }),
  ),
});

/** Documents may have texts in which people write anything, such as tags: the audit row has their digests. */
const recorded = { records: ['versioning'], digests: ['configuration'] } as const;

const query = {
  'dry-run': jsonOptional(jsonBoolean),
};
const entry = { id: noResource('An inventory of the bucket in the path.') };

export const configurationRows = {
  ListBucketConfigurations: {
    on: 'GET /buckets/:name/configurations',
    doc: 'Shows every configuration of a bucket that is set, by family.',
    reply: jsonObject({ configurations: jsonAny }),
  },
  GetBucketConfiguration: {
    on: 'GET /buckets/:name/configurations/:family',
    tagged: true,
    doc: 'Shows a configuration of a bucket, in the form in which PUT takes it; of a family with ids all of them, by id.',
    reply: jsonAny,
  },
  PutBucketConfiguration: {
    on: 'PUT /buckets/:name/configurations/:family',
    doc: 'Sets a configuration of a bucket, with the checks of the storage protocol and as the account of the bucket. With dry-run it stores nothing, and names everything that would be refused.',
    ...recorded,
    query,
    body: document,
    bodyMax,
    reply: written,
  },
  DeleteBucketConfiguration: {
    on: 'DELETE /buckets/:name/configurations/:family',
    ...recorded,
    doc: 'Removes a configuration of a bucket.',
  },
  GetBucketConfigurationEntry: {
    on: 'GET /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations get-entry',
    tagged: true,
    doc: 'Shows one configuration of a family with ids, such as an inventory.',
    reply: jsonAny,
  },
  PutBucketConfigurationEntry: {
    on: 'PUT /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations set-entry',
    doc: 'Sets one configuration of a family with ids, such as an inventory.',
    ...recorded,
    query,
    body: document,
    bodyMax,
    reply: written,
  },
  DeleteBucketConfigurationEntry: {
    on: 'DELETE /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations delete-entry',
    ...recorded,
    doc: 'Removes one configuration of a family with ids.',
  },
} as const satisfies AdminRows;
