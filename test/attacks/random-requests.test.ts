/**
 * Random requests over every row of the operation table, with random headers, queries and bodies, by everybody: each
 * is answered, and none with an internal error (attacks 11).
 */
import { describe, expect, test } from 'vitest';
import { leftOutOperations } from '../../src/protocol/left-out-operations.ts';
import { type Operation, operationNames, operations } from '../../src/protocol/operations.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { elements, headerNames, queryNames, texts } from './random-words.ts';

type Roll = (sides: number) => number;

/** A small generator, so that a failing seed asks for the same again. */
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

/** A request that asks for the row, with whatever else comes to mind. */
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
    // What no header could carry is not sent as one.
    if (!/[^\x20-\x7e\xa0-\xff]/.test(text)) headers[pick(roll, headerNames)] = text;
  }
  const body = method === 'GET' || method === 'HEAD' ? undefined : bodyOf(roll);
  return client.send(method, path, { query, headers, ...(body === undefined ? {} : { body }) });
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
}

const rounds = 60;

describe.each(backends)('on %s', (backend) => {
  test.each([1, 2, 3])('no request of seed %i is an internal error', async (seed) => {
    await using world = await openGateway({ backend });
    const clients = [world.client, world.client, world.neutral, world.bob, world.anonymous];
    const roll = dice(seed);
    let done = 0;
    for (let round = 0; round < rounds; round += 1) {
      // Whatever was deleted is there again, so that later rounds meet it.
      if (round % 10 === 0) await furnish(world);
      for (const name of operationNames) {
        const at = `seed ${seed}, round ${round}, ${name}`;
        const answer = await ask(roll, pick(roll, clients), operations[name]);
        expect(answer.code, at).not.toBe('InternalError');
        expect(answer.status, `${at}: ${answer.text}`).not.toBe(500);
        if (answer.status < 300) done += 1;
      }
    }
    // Refusals alone would prove little.
    const served = operationNames.filter((name) => !(name in leftOutOperations));
    expect(done / (rounds * served.length)).toBeGreaterThan(0.03);
  });
});
