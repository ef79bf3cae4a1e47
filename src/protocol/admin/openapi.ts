/** The OpenAPI 3.1 document of the operator API, derived from its table. */

import { isOptional } from '../formats/json.ts';
import type { JsonSchema } from '../formats/json-shape.ts';
import { configurationFamilies, configurationShapes } from '../schemas/families.ts';
import { type AdminOperationName, adminOperationNames, describeAdminOperation } from './operations.ts';

const error: JsonSchema = {
  type: 'object',
  properties: {
    code: { type: 'string', description: 'A code of docs/reference/errors.md.' },
    message: { type: 'string' },
    request_id: { type: 'string' },
    details: {
      type: 'object',
      properties: {
        field: { type: 'string', description: 'The wrong field of the body, or the wrong parameter.' },
      },
      description: 'What the error is about, such as bucketName.',
    },
  },
  required: ['code', 'message', 'request_id', 'details'],
};

type Described = ReturnType<typeof describeAdminOperation>;

export function adminOpenApi() {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const name of adminOperationNames) {
    const row = describeAdminOperation(name);
    const path = row.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: describe(name, row) };
  }
  const tags = [...new Set(adminOperationNames.map((name) => describeAdminOperation(name).tag))].sort();
  return {
    openapi: '3.1.0',
    info: {
      title: 'The operator API of sluice',
      version: '1',
      description:
        'Requests are signed as those of the storage protocol are (signature version 4, service s3).',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: tags.map((name) => ({ name })),
    security: [{ signature: [] }, { cookie: [] }],
    paths,
    components: {
      schemas: { Error: error, ...configurationSchemas },
      responses: {
        Error: {
          description: 'The request was refused.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
      securitySchemes: {
        signature: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'Signature version 4, with the service s3.',
        },
        cookie: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-sluice-login',
          description: 'Of POST /session.',
        },
      },
    },
  };
}

function describe(name: AdminOperationName, row: Described) {
  const { doc, tag, parameters, query, body, callers } = row;
  const inPath = parameters.map((each) => ({
    name: each,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
  }));
  const inQuery = Object.entries(query).map(([each, reader]) => ({
    name: each,
    in: 'query',
    required: !isOptional(reader),
    schema: reader.schema,
  }));
  return {
    operationId: name,
    summary: doc,
    tags: [tag],
    ...(callers === 'anyone' ? { security: [] } : {}),
    parameters: [...inPath, ...inQuery, ...listHeaders(row)],
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: body.schema.required !== undefined,
            content: { 'application/json': { schema: toReference(body.schema) } },
          },
        }),
    responses: listResponses(row),
  };
}

/** Alternatives with a title are components, because several operations take them. */
const toReference = ({ anyOf, ...schema }: JsonSchema): object =>
  anyOf === undefined
    ? schema
    : { ...schema, anyOf: anyOf.map(({ title = '' }) => ({ $ref: `#/components/schemas/${title}` })) };

const configurationSchemas = Object.fromEntries(
  configurationFamilies.map((family) => [family, configurationShapes[family].schema]),
);

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string' },
});

const listHeaders = ({ conditional, repeatable }: Described) => [
  ...(conditional === true
    ? [
        header(
          'If-Match',
          'The ETag of the state that the change replaces; another state is refused with 412.',
        ),
        header('If-None-Match', 'Only `*`: nothing may be set yet.'),
      ]
    : []),
  ...(repeatable
    ? [header('Idempotency-Key', 'A repetition within a day gets the answer of the first request.')]
    : []),
];

function listResponses({ statuses, reply, media, tagged }: Described) {
  const schema = reply?.schema;
  const content =
    schema === undefined
      ? Object.fromEntries((media ?? []).map((type) => [type, { schema: { type: 'string' } }]))
      : { 'application/json': { schema } };
  const headers = tagged === true ? { headers: { ETag: { schema: { type: 'string' } } } } : {};
  return {
    ...Object.fromEntries(
      statuses.map((status) => [
        String(status),
        {
          description: status === 202 ? 'Begun.' : 'Done.',
          ...headers,
          ...(Object.keys(content).length === 0 ? {} : { content }),
        },
      ]),
    ),
    default: { $ref: '#/components/responses/Error' },
  };
}
