/** Which names in a query choose an operation, which are ignored, and how combinations that no operation has are refused. */
import { describe, expect, test } from 'vitest';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { leftOutNames, leftOutOperations } from '../../src/protocol/operations/left-out.ts';
import { type Operation, operations, subResources } from '../../src/protocol/operations/operations.ts';
import { openGateway } from '../support/gateway.ts';

const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const deletion = '<Delete><Object><Key>key</Key></Object></Delete>';
const rows: readonly (readonly [string, Operation])[] = Object.entries(operations);

/** The methods with which the public API has a sub-resource. */
const methodsOf = (scope: string, name: string): string[] =>
  rows
    .filter(([, { on, leftOut }]) => leftOut === undefined && on.split(' ')[1] === scope)
    .filter(([, { on }]) => on.split(' ').includes(`?${name}`))
    .map(([, { on }]) => on.split(' ')[0] ?? '');
const isLeftOut = (scope: string, name: string): boolean =>
  leftOutNames.some((each) => {
    const [, at, ...marks] = leftOutOperations[each].on.split(' ');
    return at === scope && marks.includes(`?${name}`);
  });

describe('a query parameter that no operation has', () => {
  test.each(['amz', 'store'] as const)('is ignored in every operation (%s)', async (dialect) => {
    await using world = await openGateway();
    const client = dialect === 'amz' ? world.client : world.neutral;
    expect((await client.put('/bucket?_=123')).status).toBe(200);
    expect((await client.put('/bucket?versioning&x-foo=1', { body: enabled })).status).toBe(200);
    expect((await client.get('/bucket?versioning&nonsense')).one('Status')).toBe('Enabled');
    expect((await client.put('/bucket/key?x-purpose=Indices', { body: 'content' })).status).toBe(200);
    expect((await client.get('/bucket/key?_=123')).text).toBe('content');
    expect((await client.get('/bucket?x-purpose=Indices&list-type=2')).all('Key')).toEqual(['key']);
    const deleted = await client.post('/bucket?delete&x-purpose=Indices', { body: deletion });
    expect([deleted.status, deleted.all('Deleted').length]).toEqual([200, 1]);
    expect((await client.presigned('PUT', '/other?_=123')).status).toBe(200);
    expect((await client.delete('/other?_=123&nonsense')).status).toBe(204);
    expect((await client.head('/other')).status).toBe(404);
    expect((await client.get('/?_=123')).all('Name')).toEqual(['bucket']);
  });

  test('is part of what the signature covers', async () => {
    await using world = await openGateway();
    const refused = await world.client.put('/bucket?_=123', {
      tamper: { canonicalRequest: (text) => text.replace('_=123', '_=124') },
    });
    expect([refused.status, refused.code]).toEqual([403, 'SignatureDoesNotMatch']);
  });

  test('is named in the DEBUG line of its request, without its value; parameters of the operation are not', async () => {
    const lines: Fields[] = [];
    await using world = await openGateway({
      telemetry: { ...silentTelemetry, log: (_level, _message, fields = {}) => void lines.push(fields) },
    });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/a', { body: 'x' });
    const ignoredBy = async (path: string): Promise<unknown> => {
      lines.length = 0;
      expect((await client.get(path)).status, path).toBeLessThan(300);
      return lines.find((line) => line['operation'] !== undefined)?.['ignored_parameters'];
    };
    expect(await ignoredBy('/bucket?x-purpose=secret&_=123')).toEqual(['_', 'x-purpose']);
    expect(await ignoredBy('/bucket?list-type=2&marker=a&prefix=a&delimiter=/')).toEqual(['marker']);
    expect(
      await ignoredBy('/bucket/a?partNumber=1&response-content-type=a/b&x-id=GetObject'),
    ).toBeUndefined();
    expect(await ignoredBy(`/bucket?${'secret'.repeat(20)}`)).toEqual(['…']);
    lines.length = 0;
    await client.presigned('GET', '/bucket/a?x-purpose=1');
    expect(lines.at(-1)?.['ignored_parameters']).toEqual(['x-purpose']);
    expect(JSON.stringify(lines)).not.toContain('secret');
  });
});

describe('a sub-resource of the public API', () => {
  test('with a method that it does not have is 405 with Allow, and changes nothing', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    await client.put('/empty');
    let refusals = 0;
    for (const [scope, path] of [
      ['bucket', '/empty'],
      ['bucket', '/new'],
      ['object', '/bucket/key'],
    ] as const) {
      for (const name of subResources) {
        const allowed = methodsOf(scope, name);
        if (allowed.length === 0 || ['uploadId', 'partNumber', 'versionId'].includes(name)) continue;
        for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
          if (allowed.includes(method)) continue;
          const refused = await client.send(method, `${path}?${name}`, method === 'PUT' ? { body: 'x' } : {});
          const what = `${method} ${path}?${name}`;
          expect(refused.status, what).toBe(405);
          expect(refused.header('allow')?.split(', ').sort(), what).toEqual([...new Set(allowed)].sort());
          if (method !== 'HEAD') {
            expect(refused.code, what).toBe('MethodNotAllowed');
            expect([refused.one('Method'), refused.one('ResourceType')]).toEqual([
              method,
              name.toUpperCase(),
            ]);
          }
          refusals += 1;
        }
      }
    }
    expect(refusals).toBeGreaterThan(100);
    expect((await client.head('/empty')).status).toBe(200);
    expect((await client.head('/new')).status).toBe(404);
    expect((await client.get('/bucket/key')).text).toBe('content');
  });

  test('of another scope is InvalidRequest 400, and changes nothing', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    await client.put('/empty');
    for (const [scope, path, name] of [
      ...[...subResources].flatMap((each) => [
        ['bucket', '/empty', each] as const,
        ['bucket', '/new', each] as const,
        ['object', '/bucket/key', each] as const,
      ]),
    ]) {
      if (rows.some(([, { on }]) => on.split(' ')[1] === scope && on.split(' ').includes(`?${name}`)))
        continue;
      if (name === 'versionId') continue;
      for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
        const refused = await client.send(method, `${path}?${name}`, method === 'PUT' ? { body: 'x' } : {});
        const isKnown = scope === 'object' && name === 'versionId';
        expect([refused.status, isKnown], `${method} ${path}?${name}`).toEqual([400, false]);
        if (method !== 'HEAD') expect(refused.code).toBe('InvalidRequest');
      }
    }
    expect((await client.head('/empty')).status).toBe(200);
    expect((await client.head('/new')).status).toBe(404);
    expect((await client.get('/bucket/key')).text).toBe('content');
  });

  test('beside another one is InvalidArgument 400, which names both', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    for (const [method, path, names] of [
      ['GET', '/bucket?acl&policy', ['acl', 'policy']],
      ['PUT', '/bucket?tagging&versioning', ['tagging', 'versioning']],
      ['DELETE', '/bucket?policy&cors', ['cors', 'policy']],
      ['GET', '/bucket/key?acl&tagging', ['acl', 'tagging']],
      ['GET', '/bucket/key?acl&partNumber=1', ['acl', 'partNumber']],
      ['PUT', '/bucket/key?acl&uploadId=x&partNumber=1', ['acl', 'uploadId', 'partNumber']],
      ['GET', '/bucket?versions&uploads', ['uploads', 'versions']],
    ] as const) {
      const refused = await client.send(method, path, method === 'PUT' ? { body: enabled } : {});
      expect([refused.status, refused.code], path).toEqual([400, 'InvalidArgument']);
      expect(refused.one('Message')).toContain('Conflicting query string parameters: ');
      const named = refused.one('Message')?.split(': ')[1]?.split(', ') ?? [];
      expect(named.length, path).toBeGreaterThan(1);
      for (const name of named) expect(names, path).toContain(name);
    }
  });

  test('that is only half of an address is InvalidArgument 400, which names what is missing', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    for (const [method, path, missing] of [
      ['PUT', '/bucket/key?partNumber=1', 'uploadId'],
      ['PUT', '/bucket/key?uploadId=x', 'partNumber'],
      ['PUT', '/bucket/new?uploadId=x', 'partNumber'],
    ] as const) {
      const refused = await client.send(method, path, { body: 'new' });
      expect([refused.status, refused.code], path).toEqual([400, 'InvalidArgument']);
      expect(refused.one('Message')).toContain(missing);
    }
    const copied = await client.put('/bucket/key?partNumber=1', {
      headers: { '*-copy-source': '/bucket/key' },
    });
    expect([copied.status, copied.code]).toEqual([400, 'InvalidArgument']);
    expect((await client.post('/bucket/key?partNumber=1')).status).toBe(405);
    expect((await client.delete('/bucket/key?partNumber=1')).status).toBe(405);
    expect((await client.get('/bucket/key')).text).toBe('content');
    expect((await client.head('/bucket/new')).status).toBe(404);
  });

  test('versionId, where the operation is about no version, is InvalidArgument 400', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    for (const [method, path] of [
      ['PUT', '/bucket/key?versionId=null'],
      ['POST', '/bucket/key?uploads&versionId=null'],
      ['GET', '/bucket?versionId=null'],
      ['DELETE', '/bucket?versionId=null'],
      ['PUT', '/new?versionId=null'],
    ] as const) {
      const refused = await client.send(method, path, method === 'PUT' ? { body: 'new' } : {});
      expect([refused.status, refused.code], path).toEqual([400, 'InvalidArgument']);
      expect([refused.one('ArgumentName'), refused.one('ArgumentValue')]).toEqual(['versionId', 'null']);
    }
    expect((await client.get('/bucket/key')).text).toBe('content');
  });

  test('in another case is never ignored by a request that changes something', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    for (const [method, path] of [
      ['DELETE', '/bucket?Policy'],
      ['PUT', '/new?Versioning'],
      ['DELETE', '/bucket/key?versionid=null'],
      ['PUT', '/bucket/key?Tagging'],
    ] as const) {
      const refused = await client.send(method, path, method === 'PUT' ? { body: 'new' } : {});
      expect([refused.status, refused.code], path).toEqual([400, 'InvalidArgument']);
    }
    expect((await client.get('/bucket?Policy')).all('Key')).toEqual(['key']);
    expect((await client.get('/bucket/key')).text).toBe('content');
  });

  test('that is left out is 501 with its reason for each of its methods only', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    for (const [method, path, reason] of [
      ['DELETE', '/bucket?accelerate', 'the specification leaves it out'],
      ['PUT', '/bucket?analytics', 'the specification leaves it out'],
      ['DELETE', '/bucket?metadataInventoryTable', 'table buckets'],
    ] as const) {
      const refused = await client.send(method, path, method === 'PUT' ? { body: 'x' } : {});
      expect([refused.status, refused.code], path).toEqual([501, 'NotImplemented']);
      expect(refused.one('Message')).toContain(reason);
    }
    expect((await client.head('/bucket')).status).toBe(200);
    expect(isLeftOut('bucket', 'metadataInventoryTable')).toBe(true);
  });
});

describe('a method that the resource does not have', () => {
  test.each([
    ['PATCH', '/bucket/key', ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PUT']],
    ['POST', '/bucket/key', ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PUT']],
    ['PATCH', '/bucket', ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']],
    ['PUT', '/', ['GET']],
    ['DELETE', '/', ['GET']],
  ])('%s %s is 405 with Allow', async (method, path, allowed) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const refused = await world.client.send(method, path);
    expect([refused.status, refused.code]).toEqual([405, 'MethodNotAllowed']);
    expect(refused.header('allow')?.split(', ').sort()).toEqual(allowed);
  });
});
