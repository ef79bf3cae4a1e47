/**
 * Random requests over every row of the operation table, with random headers, queries and bodies, by all callers: every one is answered
 * without an internal error.
 */
import { describe, expect, test } from 'vitest';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { leftOutOperations } from '../../src/protocol/operations/left-out.ts';
import {
  type Operation,
  type OperationName,
  operationNames,
  operations,
  replicaOperations,
} from '../../src/protocol/operations/operations.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { awaitDefaultPeer } from '../support/replication-role.ts';
import { xmlBodies } from '../support/xml-bodies.ts';
import { elements, headerNames, queryNames, texts } from './random-words.ts';

type Roll = (sides: number) => number;

/** A small random generator: the same seed gives the same requests. */
function dice(seed: number): Roll {
  let state = seed >>> 0;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % sides;
  };
}
const pick = <T>(roll: Roll, values: readonly T[]): T => values[roll(values.length)] as T;

const keys = ['key', 'a/b', 'ümläut', '..', '%2e', 'a b+c', '', 'x'.repeat(1025), 'index.html'];
const buckets = ['bucket', 'versioned', 'locked', 'absent', 'A', '..'];
const versions = ['null', '', 'x', '0'.repeat(32), `${'f'.repeat(32)}`, '../..'];

function xml(roll: Roll, depth = 0): string {
  const name = pick(roll, elements);
  const count = depth > 4 ? 0 : roll(4);
  const inside =
    count === 0
      ? pick(roll, texts).replace(/[&<]/g, '')
      : Array.from({ length: count }, () => xml(roll, depth + 1)).join('');
  return `<${name}>${inside}</${name}>`;
}

function bodyOf(roll: Roll): string | Uint8Array | undefined {
  switch (roll(8)) {
    case 0:
      return undefined;
    case 1:
      return pick(roll, texts);
    case 2:
      return Uint8Array.from({ length: roll(300) }, () => roll(256));
    case 3:
      return JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          {
            Effect: pick(roll, ['Allow', 'Deny', 'x']),
            Principal: pick(roll, ['*', 'x']),
            Action: pick(roll, ['s3:*', 's3:GetObject', 'x']),
            Resource: 'arn:aws:s3:::bucket/*',
          },
        ],
      });
    case 4:
      return `<!DOCTYPE a [<!ENTITY b "c">]>${xml(roll)}`;
    default:
      return xml(roll);
  }
}

/** A request for the row of the operation table, with random headers, queries and body. */
function ask(roll: Roll, client: Client, { on }: Operation): Promise<Answer> {
  const [given = '', scope, ...marks] = on.split(' ');
  const method = given === 'ANY' ? pick(roll, ['GET', 'POST']) : given;
  const path =
    scope === 'service'
      ? '/'
      : `/${pick(roll, buckets)}${scope === 'bucket' ? '' : `/${encodeURI(pick(roll, keys))}`}`;
  const query: [string, string][] = [];
  const headers: Record<string, string> = {};
  for (const mark of marks) {
    const [name = '', value] = mark.slice(1).split('=');
    if (mark.startsWith('?')) query.push([name, value ?? (roll(3) === 0 ? pick(roll, texts) : '')]);
    else headers[`*-${name}`] = roll(2) === 0 ? '/bucket/key' : pick(roll, texts);
  }
  for (let count = roll(3); count > 0; count -= 1)
    query.push([pick(roll, queryNames), roll(3) === 0 ? pick(roll, versions) : pick(roll, texts)]);
  for (let count = roll(5); count > 0; count -= 1) {
    const text = pick(roll, texts);
    // Skip characters that a header cannot contain.
    if (!/[^\x20-\x7e\xa0-\xff]/.test(text)) headers[pick(roll, headerNames)] = text;
  }
  const body = method === 'GET' || method === 'HEAD' ? undefined : bodyOf(roll);
  return client.send(method, path, { query, headers, ...(body === undefined ? {} : { body }) });
}

/** The document that a Put of this sub-resource sends. */
function documentFor(method: string, scope: string, mark: string): string {
  if (mark === 'policy')
    return '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"bob-account"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}]}';
  const found = xmlBodies.find(({ on, refused }) => {
    const [verb = '', target = ''] = on.split(' ');
    const [path = '', query = ''] = target.split('?');
    const isObject = path.split('/').length > 2;
    const name = query.split(/[=&]/)[0];
    return verb === method && refused === undefined && isObject === (scope === 'object') && name === mark;
  });
  return found?.document ?? 'content';
}

/** A valid request for the row about existing resources, with one more header or parameter. */
function askWell(roll: Roll, { client }: GatewayWorld, { on }: Operation): Promise<Answer> {
  const [given = '', scope = '', ...marks] = on.split(' ');
  const method = given === 'ANY' ? 'GET' : given;
  const key = pick(roll, ['key', 'a/b', 'index.html']);
  const path = scope === 'service' ? '/' : scope === 'bucket' ? '/bucket' : `/bucket/${key}`;
  const asked = marks.filter((mark) => mark.startsWith('?')).map((mark) => mark.slice(1).split('='));
  const query = asked.map(([name = '', value = '']): [string, string] => [
    name,
    value === '' && name === 'id' ? 'i' : value,
  ]);
  const copying = marks.includes('+copy-source') ? { '*-copy-source': '/bucket/key' } : {};
  const headers = {
    ...copying,
    [pick(roll, ['x-other', 'user-agent', 'accept', 'cookie'])]: pick(roll, ['a', '*', '0']),
  };
  const body =
    method === 'PUT' || method === 'POST' ? { body: documentFor(method, scope, asked[0]?.[0] ?? '') } : {};
  return client.send(method, path, { query, headers, ...body });
}

/** A request for a route of the operator API with random words in its path and a random body. */
function askAdmin(roll: Roll, client: Client, name: (typeof adminOperationNames)[number]): Promise<Answer> {
  const { method, path } = describeAdminOperation(name);
  const names = [
    'bucket',
    'bucket',
    'versioned',
    'default',
    'default',
    'alice',
    'absent',
    '..',
    '%2e',
    '',
    '__proto__',
  ];
  const target = path.replace(/:\w+/g, () => pick(roll, names));
  const words = [
    'mode',
    'weight',
    'readonly',
    'evacuate',
    'shards',
    'cluster',
    'class',
    'confirm',
    '__proto__',
  ];
  const json = (): string =>
    JSON.stringify(
      Object.fromEntries(
        [0, 1, 2].map(() => [pick(roll, words), pick(roll, [1, -1, 'x', 'readonly', null, [], {}])]),
      ),
    );
  const body =
    method === 'GET' ? {} : { body: pick(roll, [json, json, () => '', () => '{', () => xml(roll)])() };
  const query: [string, string][] = roll(2) === 0 ? [] : [[pick(roll, queryNames), pick(roll, texts)]];
  return client.send(method, target, { query, ...body });
}

async function furnish({ client }: GatewayWorld): Promise<void> {
  await client.put('/bucket');
  await client.put('/versioned');
  await client.put('/locked', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/versioned?versioning', {
    body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
  });
  for (const bucket of ['bucket', 'versioned', 'locked'])
    for (const key of ['key', 'a/b', 'index.html'])
      await client.put(`/${bucket}/${key}`, { body: 'content' });
  for (const { on, document } of xmlBodies) {
    const [method = '', path = ''] = on.split(' ');
    if (method === 'PUT' && path.startsWith('/bucket?')) await client.put(path, { body: document });
  }
  await client.put('/bucket?policy', { body: documentFor('PUT', 'bucket', 'policy') });
}

/** IAM and STS actions are tested in `iam-random.test.ts`, with parameters that fit. */
const isStorage = (name: OperationName): boolean => !operations[name].on.includes('?Action');

const rounds = 25;

describe.each(backends)('on %s', (backend) => {
  test.each([1, 2, 3])('no request of seed %i is an internal error', async (seed) => {
    await using world = await openGateway({ backend });
    await awaitDefaultPeer(world);
    const clients = [world.client, world.client, world.neutral, world.bob, world.anonymous];
    const roll = dice(seed);
    const admin = world.as({ credential: operator });
    let done = 0;
    let managed = 0;
    for (let round = 0; round < rounds; round += 1) {
      // Restore what was deleted, so that later rounds find it.
      await furnish(world);
      for (const name of operationNames) {
        const at = `seed ${seed}, round ${round}, ${name}`;
        const isWell = roll(4) > 0;
        const answer = isWell
          ? await askWell(roll, world, operations[name])
          : await ask(roll, pick(roll, clients), operations[name]);
        expect(answer.code, at).not.toBe('InternalError');
        expect(answer.status, `${at}: ${answer.text}`).not.toBe(500);
        if (answer.status < 300 && isStorage(name)) done += 1;
      }
      for (const name of adminOperationNames) {
        const at = `seed ${seed}, round ${round}, ${name}`;
        const answer = await askAdmin(roll, pick(roll, [...clients, admin, admin, admin]), name);
        expect(answer.status, `${at}: ${answer.text}`).not.toBe(500);
        if (answer.status < 300) managed += 1;
      }
    }
    expect(managed).toBeGreaterThan(rounds * 2);
    // Enough requests must succeed, because refusals alone would prove little. Requests between sites have documents of their own, which
    // `replica-requests.test.ts` varies.
    const served = operationNames.filter(
      (name) => isStorage(name) && !(name in leftOutOperations) && !(name in replicaOperations),
    );
    expect(done / (rounds * served.length)).toBeGreaterThanOrEqual(0.5);
  });
});
