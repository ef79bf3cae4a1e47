/** The reference page of the operator API: a table, then query, body and reply of each operation. */

import { adminOperationNames, describeAdminOperation } from '../src/protocol/admin/operations.ts';
import { isOptional } from '../src/protocol/formats/json.ts';
import type { JsonSchema } from '../src/protocol/formats/json-shape.ts';
import { configurationFamilies, configurationShapes } from '../src/protocol/schemas/families.ts';
import { code } from './markdown.ts';

/** A schema as a short type, such as `{ weight: integer, mode?: "weighted" | "strict" }`. */
function show(schema: JsonSchema): string {
  const { type, items, properties, required = [], additionalProperties, anyOf } = schema;
  if (anyOf !== undefined) return 'the configuration of the family';
  if (schema.enum !== undefined) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
  if (items !== undefined) return `[${show(items)}]`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(
      ([name, each]) => `${name}${required.includes(name) ? '' : '?'}: ${show(each)}`,
    );
    return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
  }
  if (typeof additionalProperties === 'object') return `{ <name>: ${show(additionalProperties)} }`;
  return typeof type === 'object' ? type.join(' | ') : (type ?? 'any');
}

function section(name: (typeof adminOperationNames)[number]): string {
  const row = describeAdminOperation(name);
  const { method, path, query, body, reply, media, statuses, conditional, repeatable, tagged } = row;
  const parameters = Object.entries(query).map(([each, reader]) =>
    code(`${each}${isOptional(reader) ? '?' : ''}: ${show(reader.schema)}`),
  );
  const headers = [
    ...(conditional === true ? ['`If-Match`, `If-None-Match: *`'] : []),
    ...(repeatable ? ['`Idempotency-Key`'] : []),
  ];
  const named = Object.values(row.names ?? {}).flatMap((each) =>
    'path' in each ? [`${code(each.path)} (${each.rule})`] : [],
  );
  const audited = [
    ...(row.records ?? []).map(code),
    ...(row.digests ?? []).map((field) => `${code(field)} (SHA-256)`),
  ];
  const answer = reply !== undefined ? code(show(reply.schema)) : (media ?? []).map(code).join(', ');
  return [
    `## ${name}`,
    '',
    `${code(`${method} ${path}`)}: ${row.doc}`,
    '',
    ...(parameters.length === 0 ? [] : [`- Query: ${parameters.join(', ')}`]),
    ...(body === undefined ? [] : [`- Body: ${code(show(body.schema))}`]),
    ...(named.length === 0 ? [] : [`- Further resources in policies: ${named.join(', ')}`]),
    ...(audited.length === 0 ? [] : [`- Audited fields: ${audited.join(', ')}`]),
    ...(headers.length === 0 ? [] : [`- Headers: ${headers.join(', ')}`]),
    `- Reply: ${statuses.join(' or ')}${answer === '' ? '' : ` ${answer}`}${tagged === true ? ', with an `ETag`' : ''}`,
    '',
  ].join('\n');
}

const families = (): string =>
  [
    '## Configurations of buckets',
    '',
    'The JSON of each family, as its operations above take and show it. It is the value of the XML of the public API: elements and attributes are fields, repeated elements a list.',
    '',
    ...configurationFamilies.map(
      (family) => `- ${code(family)}: ${code(show(configurationShapes[family].schema))}`,
    ),
    '',
  ].join('\n');

export const adminSections = (): string => [...adminOperationNames.map(section), families()].join('\n');
