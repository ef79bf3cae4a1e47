/**
 * Converts configurations of a bucket between the JSON of the operator API and the bodies of the storage protocol, by
 * the gateway's own schemas.
 */
import { readStrictJson } from '../../src/base/text/strict-json.ts';
import { readXml, writeXml, type Xml } from '../../src/protocol/formats/codec.ts';
import type { JsonFault, JsonSchema, JsonShape } from '../../src/protocol/formats/json-shape.ts';
import {
  type ConfigurationFamily,
  configurationDocuments,
  configurationShapes,
} from '../../src/protocol/schemas/families.ts';
import { minimumSizeField } from '../../src/protocol/schemas/lifecycle.ts';

/** As the gateway reads a lifecycle, its longest document. */
const limits = { maxBytes: 2 ** 20, elementsMax: 50_000 };
export const minimumSizeHeader = 'x-amz-transition-default-minimum-object-size';
const encoder = new TextEncoder();
export const decodeXml = <T>(
  { root, schema }: { readonly root: string; readonly schema: Xml<T> },
  text: string,
): T => readXml(schema, root, encoder.encode(text), limits);

/** The replies for a bucket without a configuration: some are documents that say nothing. */
const saysNothing = (family: ConfigurationFamily, value: unknown): boolean =>
  family === 'request-payment'
    ? (value as { readonly Payer: string }).Payer === 'BucketOwner'
    : Object.values(value as object).every(
        (each) => each === undefined || (Array.isArray(each) && each.length === 0),
      );

/** @returns undefined for a document that says nothing */
export function decodeConfiguration(family: ConfigurationFamily, { text, minimumSize }: Encoded): unknown {
  if (family === 'policy') return JSON.parse(text);
  const value = decodeXml(configurationDocuments[family], text);
  if (saysNothing(family, value)) return undefined;
  // The default is sent with every lifecycle.
  return minimumSize === undefined || minimumSize === 'all_storage_classes_128K'
    ? value
    : { ...(value as object), [minimumSizeField]: minimumSize };
}

/** A body, and the header of a lifecycle that its JSON has as a field. */
export interface Encoded {
  readonly text: string;
  readonly minimumSize?: string | undefined;
}

/** @param value from `readDocument` */
export function encodeConfiguration(family: ConfigurationFamily, value: unknown): Encoded {
  if (family === 'policy') return { text: String(value) };
  const { [minimumSizeField]: minimumSize, ...rest } = value as Record<string, unknown>;
  const { schema, root } = configurationDocuments[family];
  const text = writeXml(schema, root, rest);
  return typeof minimumSize === 'string' ? { text, minimumSize } : { text };
}

/** The fields of a family and their values. */
export const schemaOf = (family: ConfigurationFamily): JsonSchema => configurationShapes[family].schema;

/** Reads a text as the gateway would. @returns the value, and every part that has not the form of the family */
export function readDocument(
  family: ConfigurationFamily,
  text: string,
): { readonly value: unknown; readonly faults: readonly JsonFault[] } {
  const faults: JsonFault[] = [];
  const shape: JsonShape<unknown> = configurationShapes[family];
  const json = readStrictJson(text, { refuse: (path, problem) => new Error(`${path} ${problem}`.trim()) });
  return { value: shape.read(json, '', (fault) => faults.push(fault)), faults };
}

/** The documents that mean "not set", of the families without DELETE. */
export const emptyDocuments: Partial<Record<ConfigurationFamily, object>> = {
  logging: {},
  notification: { TopicConfiguration: [], QueueConfiguration: [], CloudFunctionConfiguration: [] },
};
