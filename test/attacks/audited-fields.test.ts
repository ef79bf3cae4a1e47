/**
 * The audit rows of the operator API have values of the fields that the row of the operation records, and of no other: a text is planted in
 * every field of every body, and searched in all rows.
 */
import { expect, test } from 'vitest';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../src/protocol/admin/operations.ts';
import type { JsonSchema } from '../../src/protocol/formats/json-shape.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { auditRows } from '../support/recorded.ts';
import { isSecretField } from '../support/secret-fields.ts';

/** What a request must have planted or may show, by operation. */
interface Planted {
  readonly name: AdminOperationName;
  /** The field of the body, and the field that contains it. */
  readonly field: string;
  readonly inside: string;
  readonly text: string;
}

const document = (text: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Sid: text, Effect: 'Allow', Action: 's3:GetObject', Resource: '*' }],
  });
const trust = (text: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Sid: text, Effect: 'Allow', Action: 'sts:AssumeRole', Principal: { AWS: '*' } }],
  });

/** The first form of the text that the schema takes. */
function formOf(text: string, field: string, { pattern, maxLength = 65_536 }: JsonSchema): string {
  if (field === 'document') return document(text);
  if (field === 'trust') return trust(text);
  const forms = [
    text,
    `/${text}/`,
    `https://${text}.example.com`,
    `http://${text}.example.com`,
    `${text}@example.com`,
    `-----BEGIN CERTIFICATE-----\n${text}\n`,
    `-----BEGIN PRIVATE KEY-----\n${text}\n`,
    '2026-01-01T00:00:00Z',
    '1KiB',
    '000000',
  ];
  const form = forms.find(
    (each) => each.length <= maxLength && (pattern === undefined || new RegExp(pattern, 'u').test(each)),
  );
  if (form === undefined) throw new Error(`no form of a text fits ${field}: ${pattern}`);
  return form;
}

/** Fields that name what exists, so that the operation is carried out. */
const existingNames: Readonly<Record<string, string>> = {
  'ImportAccessKey.account': 'shop',
  'PutBucketOwner.owner': 'shop',
  'PutBucketDefaultClass.defaultClass': 'STANDARD_IA',
  'PutIamUser.name': 'ann',
  'AttachIamPolicy.name': 'ann',
  'AttachIamPolicy.policy': 'arn:aws:iam::shop:policy/reading',
  'DetachIamPolicy.name': 'ann',
  'DetachIamPolicy.policy': 'arn:aws:iam::shop:policy/reading',
};

test('audit rows have values of recorded fields only, and no secret', async () => {
  await using world = await openGateway();
  const client = world.as({ credential: operator });
  const secrets = new Set<string>();
  const send = async (method: string, path: string, body?: unknown) => {
    const { status, text } = await client.send(method, path, {
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // Secrets that are shown once.
    if (text.startsWith('{'))
      for (const [field, value] of Object.entries(JSON.parse(text) as Record<string, unknown>))
        if (isSecretField(field) && typeof value === 'string' && value.length > 7) secrets.add(value);
    return status;
  };
  const must = async (method: string, path: string, body?: unknown) =>
    expect([method, path, await send(method, `/admin/v1${path}`, body)]).toEqual([
      method,
      path,
      expect.toSatisfy((status) => status < 300),
    ]);
  await world.client.put('/books');
  await must('POST', '/accounts', { account: 'shop' });
  await must('POST', '/accounts/shop/users', { name: 'ann' });
  await must('POST', '/accounts/shop/groups', { name: 'staff' });
  await must('POST', '/accounts/shop/policies', { name: 'reading', document: document('first') });
  await must('POST', '/accounts/shop/roles', { name: 'robot', trust: trust('first') });
  await must('POST', '/accounts/shop/users/ann/access-keys');
  const parameters: Readonly<Record<string, string>> = {
    ...{ name: 'books', bucket: 'books', account: 'shop', user: 'ann', group: 'staff', role: 'robot' },
    ...{ policy: 'reading', id: 'default', key: 'none' },
  };

  const planted: Planted[] = [];
  let count = 0;
  const fill = (name: AdminOperationName, schema: JsonSchema, field: string, inside: string): unknown => {
    const { type, enum: choices, items, properties, additionalProperties, minimum = 1 } = schema;
    if (choices !== undefined) return choices[0];
    const existing = existingNames[`${name}.${field}`];
    if (existing !== undefined) return existing;
    if (properties !== undefined)
      return Object.fromEntries(
        Object.entries(properties).map(([each, inner]) => [
          each,
          fill(name, inner, each, inside === '' ? each : inside),
        ]),
      );
    if (items !== undefined) return [fill(name, items, field, inside)];
    if (typeof additionalProperties === 'object')
      return { default: fill(name, additionalProperties, field, inside) };
    if (type === 'boolean') return true;
    if (type === 'integer' || type === 'number') return Math.max(1, minimum);
    count += 1;
    const text = `planted${count}x`;
    planted.push({ name, field, inside, text });
    return formOf(text, field, schema);
  };

  const done: string[] = [];
  // What is deleted is needed until then.
  const order = [...adminOperationNames].sort(
    (a, b) =>
      Number(describeAdminOperation(a).method === 'DELETE') -
      Number(describeAdminOperation(b).method === 'DELETE'),
  );
  for (const name of order) {
    const { audited, method, path, body } = describeAdminOperation(name);
    if (!audited || method === 'GET') continue;
    const target = path.replace(/:(\w+)/g, (_, parameter: string) => parameters[parameter] ?? 'none');
    const status = await send(
      method,
      target,
      body === undefined ? undefined : fill(name, body.schema, '', ''),
    );
    if (status < 300) done.push(name);
  }
  // The operations that take a secret, and keep it, have taken theirs.
  expect(done).toEqual(expect.arrayContaining(['CreateAccount', 'ImportAccessKey', 'PutReplicationPeer']));
  expect(done.length).toBeGreaterThan(30);

  const rows = await auditRows(world.context);
  const text = JSON.stringify(rows);
  const shown = planted.filter((each) => text.includes(each.text));
  const unexpected = shown.filter(({ name, field, inside }) => {
    const { records = [], names = {} } = describeAdminOperation(name);
    const named = names[field];
    const isNamed = named !== undefined && 'path' in named;
    // The id of a key that is made is a name of `accessKeys`.
    const isRecorded = records.includes(inside) || records.includes(`${field}s`);
    return isSecretField(field) || !(isRecorded || isNamed || field === 'bucket');
  });
  expect(unexpected.map(({ name, field }) => `${name}.${field}`)).toEqual([]);
  // The search finds what is recorded.
  expect(shown.map(({ name, field }) => `${name}.${field}`)).toEqual(
    expect.arrayContaining(['PutReplicationPeer.endpoint', 'PutAccount.displayName']),
  );
  expect(secrets.size).toBeGreaterThan(3);
  for (const secret of secrets) expect(text).not.toContain(secret);
});
