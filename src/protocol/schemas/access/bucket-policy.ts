/** The JSON form of a bucket policy: the document itself. The engine of policies parses it (`auth/policy/document`). */
import type { Json } from '../../../base/text/strict-json.ts';
import { type JsonShape, showJson } from '../../formats/json-shape.ts';

/** As `JSON.stringify` writes a value that the strict reader has read. */
const writeJson = (value: Json): string =>
  JSON.stringify(value, (_, each: unknown) => (each instanceof Map ? Object.fromEntries(each) : each));

/** Its value is the text that is stored. */
export const bucketPolicyDocument: JsonShape<string> = {
  schema: { type: 'object', description: 'A policy document: Version, Id and Statement.' },
  isRequired: true,
  read(value, path, report) {
    if (value instanceof Map) return writeJson(value);
    const wrong = value === undefined ? 'is missing' : `is ${showJson(value)}`;
    report({ path, wrong, right: 'must be a policy document: {"Version": "2012-10-17", "Statement": […]}' });
    return undefined;
  },
};
