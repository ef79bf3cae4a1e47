/**
 * Random and hostile paths, queries, headers and bodies for every operation of the operator API, made from its OpenAPI document: no
 * request gets an internal error, every refusal has the one shape, and every reply is what the document says.
 */
import { expect, test } from 'vitest';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../src/protocol/admin/operations.ts';
import { readJson } from '../../src/protocol/formats/json.ts';
import type { JsonSchema } from '../../src/protocol/formats/json-shape.ts';
import { configurationFamilies } from '../../src/protocol/schemas/families.ts';
import { type Dice, openDice } from '../support/dice.ts';
import { openGateway, operator } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

const rounds = 20;
const requestMs = 120_000;

const hostileTexts = [
  '',
  ' ',
  '\u0000',
  '\ud800',
  '__proto__',
  'constructor',
  '../..',
  '%00',
  "'; DROP TABLE x --",
  'books',
  'üñï',
  '\u202e',
  '9999-12-31',
  '2026-02-30',
  '2026-01-31T12:00:00Z',
  '-1',
  'x'.repeat(70_000),
];
const hostileNumbers = [-1, 0.5, -0, 2 ** 53, 1e308, Number.MAX_SAFE_INTEGER, -1e308];

/** A value that the schema accepts, as often as not. */
function valueFor(dice: Dice, schema: JsonSchema, depth = 0): unknown {
  if (dice.chance(6)) return hostileValue(dice, depth);
  if (schema.anyOf !== undefined) return valueFor(dice, dice.pick(schema.anyOf), depth);
  const { type, properties = {}, required = [], items, additionalProperties } = schema;
  if (schema.enum !== undefined) return dice.pick(schema.enum);
  if (type === 'string') return textFor(dice, schema);
  if (type === 'integer' || type === 'number')
    return dice.pick([schema.minimum ?? 0, 1, 7, ...hostileNumbers]);
  if (type === 'boolean') return dice.chance(2);
  if (type === 'array') return dice.several([0, 3], () => valueFor(dice, items ?? {}, depth + 1));
  const named = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  const names = Object.keys(properties).filter((name) => required.includes(name) || dice.chance(2));
  const fields = names.map((name) => [name, valueFor(dice, properties[name] ?? {}, depth + 1)]);
  const more = named
    ? dice.several([0, 3], () => [dice.pick(hostileTexts), valueFor(dice, named, depth + 1)])
    : [];
  const unknown = dice.chance(8) ? [[dice.pick(hostileTexts), 1]] : [];
  return Object.fromEntries([...fields, ...more, ...unknown]);
}

const textFor = (dice: Dice, { pattern }: JsonSchema): string =>
  pattern !== undefined && dice.chance(2)
    ? dice.pick(['2026-01-31', '2026-01-31T12:00:00Z', 'http://127.0.0.1:1', 'secret-of-test', 'us-east-1'])
    : dice.pick([...hostileTexts, 'books', 'a', 'operator']);

const hostileValue = (dice: Dice, depth: number): unknown =>
  dice.pick<unknown>([
    null,
    [],
    {},
    true,
    dice.pick(hostileTexts),
    dice.pick(hostileNumbers),
    depth < 3 ? [hostileValue(dice, depth + 1)] : 0,
    JSON.parse('{"__proto__": {"x": 1}}'),
  ]);

const hostileBodies = [
  '{',
  '[]',
  'null',
  '"x"',
  '{"a":1,"a":2}',
  '{"weight":1e400}',
  `${'['.repeat(5_000)}`,
  `{"x":${'{"x":'.repeat(40)}1${'}'.repeat(40)}}`,
  '\ufeff{}',
  '{}{}',
];

function bodyFor(dice: Dice, schema: JsonSchema | undefined): string | Uint8Array | undefined {
  if (dice.chance(8)) return dice.pick(hostileBodies);
  if (dice.chance(16)) return Uint8Array.from({ length: dice.roll(64) }, () => dice.roll(256));
  if (schema === undefined) return dice.pick([undefined, undefined, '{}', '{"x":1}']);
  return JSON.stringify(valueFor(dice, schema));
}

const pathTexts = [
  'books',
  'nothing',
  'default',
  'a',
  'operator',
  '.',
  '__proto__',
  'constructor',
  '%2e%2e',
  '%00',
  '%ff',
  '%',
  'x'.repeat(3_000),
  '%F0%9F%98%80',
  'a%2Fb',
  ':name',
];

function targetFor(dice: Dice, name: AdminOperationName, known: readonly string[]): string {
  const { path, query } = describeAdminOperation(name);
  const at = path.replace(/:\w+/g, (parameter) => {
    const valid: Readonly<Record<string, readonly string[]>> = {
      ':name': ['books'],
      ':family': configurationFamilies,
    };
    return dice.pick(dice.chance(2) ? (valid[parameter] ?? known) : [...known, ...pathTexts]);
  });
  const pairs = Object.entries(query)
    .filter(() => dice.chance(2))
    .map(([key, { schema }]) => {
      const value = valueFor(dice, schema);
      return `${key}=${dice.chance(10) ? '%zz' : encodeURIComponent(String(value).toWellFormed().slice(0, 3_000))}`;
    });
  if (dice.chance(10)) pairs.push(dice.pick(['unknown=1', '__proto__=1', '=', 'limit=1&limit=2']));
  return `${at}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`;
}

function assertReply(name: AdminOperationName, { status, text, bytes, header }: Answer, shown: string): void {
  const row = describeAdminOperation(name);
  expect(status, shown).toBeLessThan(500);
  if (status >= 400) {
    const { code, message, request_id, details, ...rest } = JSON.parse(text);
    expect([typeof code, typeof message, typeof details, rest], shown).toEqual([
      'string',
      'string',
      'object',
      {},
    ]);
    expect(request_id, shown).toBe(header('*-request-id'));
    return;
  }
  expect(row.statuses, shown).toContain(status);
  // The document is nested deeper than any other reply; test/handlers/admin-contract.test.ts validates it.
  if (text === '' || row.media !== undefined || name === 'GetOpenApi') return;
  expect(row.reply, shown).toBeDefined();
  // Unknown and missing fields of a reply are refused as those of a body are.
  if (row.reply !== undefined)
    expect(() => readJson(row.reply as never, bytes), `${shown}\n${text}`).not.toThrow();
}

/** These are what the service says about itself when it can do nothing now. */
const isHonest = ({ status, text }: Answer): boolean =>
  (status === 503 || status === 501) &&
  /"code":"(KMSUnavailable|NotImplemented|ServiceUnavailable)"/.test(text);

test('random requests to every operation get a reply of the declared shape, and never an internal error', async () => {
  const seed = Number(process.env['SLUICE_SEED'] ?? Date.now() % 1_000_000);
  console.info(`admin fuzz: SLUICE_SEED=${seed}`);
  const dice = openDice(seed);
  await using world = await openGateway();
  const client = world.as({ credential: operator });
  await world.client.put('/books');
  await world.client.put('/books/key', { body: 'content' });
  const known = ['books', ...world.context.bytes.clusters];
  const answered = new Set<string>();
  const found = new Map<string, string>();
  for (let round = 0; round < rounds; round += 1) {
    for (const name of adminOperationNames) {
      const { method, body } = describeAdminOperation(name);
      const target = targetFor(dice, name, known);
      const content = method === 'GET' && dice.chance(2) ? undefined : bodyFor(dice, body?.schema);
      const headers: Record<string, string> = {};
      if (dice.chance(8)) headers['if-match'] = dice.pick(['*', '"x"', 'x', '"x", *', ',']);
      if (dice.chance(8)) headers['idempotency-key'] = dice.pick(['k', 'k2', 'a b', 'x'.repeat(300)]);
      if (name === 'LogIn') headers['content-type'] = 'application/json';
      const shown = `SLUICE_SEED=${seed}: ${name} ${method} ${target.slice(0, 200)} ${String(content).slice(0, 200)}`;
      const sent = client.send(method, target, {
        headers,
        ...(content === undefined ? {} : { body: content }),
      });
      const answer = await withinTime(sent, shown);
      if (answer.status < 300) answered.add(name);
      if (isHonest(answer)) continue;
      try {
        assertReply(name, answer, shown);
      } catch (cause) {
        if (!found.has(name)) found.set(name, String(cause).slice(0, 700));
      }
    }
  }
  expect([...found]).toEqual([]);
  // A third of the operations can succeed here by chance, so the replies that were compared are not of a few of them.
  expect(answered.size).toBeGreaterThan(adminOperationNames.length / 3);
});

async function withinTime<T>(sent: Promise<T>, shown: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer: ${shown}`)), requestMs);
  });
  try {
    return await Promise.race([sent, late]);
  } finally {
    clearTimeout(timer);
  }
}
