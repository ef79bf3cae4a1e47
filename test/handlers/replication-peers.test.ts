/** Replication peers: how an operator names one, and what its check says. The peer is a second gateway behind a real listener. */

import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { scanReplicationPeers } from '../../src/metadata/background/replication.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, type GatewayWorld, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, inShort } from '../support/recorded.ts';
import { makeRole, roleArnOf } from '../support/replication-role.ts';
import { serveStub } from '../support/server-stub.ts';
import { one, two } from '../support/server-tls.ts';

const settings = { SVC_EGRESS_ALLOW: '127.0.0.1', SVC_REPLICATION_TIMEOUT: '2s' };
const keys = { accessKey: alice.accessKey, secretKey: alice.secretKey };
const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

interface Step {
  readonly step: string;
  readonly state: string;
  readonly found?: string;
  readonly advice?: string;
}

let world: GatewayWorld;
beforeAll(async () => {
  world = await openGateway({ settings });
});
afterAll(() => world.close());

async function openPeer(
  options: GatewayWorldOptions = {},
): Promise<{ peer: GatewayWorld; endpoint: string }> {
  const peer = await openGateway(options);
  onTestFinished(() => peer.close());
  const { port } = await serveStub(peer.gateway.handle);
  return { peer, endpoint: `http://127.0.0.1:${port}` };
}

/** A server that is no gateway. */
async function listen(answer: RequestListener, tls?: ServerOptions): Promise<string> {
  const made = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  const server = made.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http${tls === undefined ? '' : 's'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An HTTP proxy that makes tunnels, or refuses all. */
async function openProxy(status = 200) {
  const tunnels: string[] = [];
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connect', ({ url = '' }, socket) => {
    tunnels.push(url);
    const [host, port] = url.split(':');
    if (status !== 200) return void socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
    const there = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      there.pipe(socket).pipe(there);
    });
    for (const end of [there, socket]) end.on('error', () => {});
  });
  onTestFinished(() => void server.close());
  return { tunnels, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function check(peer: Record<string, string>, by: GatewayWorld = world, bucket = 'copies') {
  const admin = operatorOf(by);
  await admin.must('PUT', '/replication/peers/far', { ...keys, ...peer });
  const { ok, steps } = await admin.must('POST', '/replication/peers/far/check', { bucket });
  const failed = (steps as Step[]).find(({ state }) => state === 'failed');
  return {
    ok,
    steps: steps as Step[],
    failed,
    states: (steps as Step[]).map(({ step, state }) => `${step} ${state}`),
  };
}

describe('the peers of an operator', () => {
  const endpoint = 'https://s3.example.com:9000';

  test('PUT, GET, list and DELETE show a peer without its keys', async () => {
    const admin = operatorOf(world);
    const shown = { id: 'second', endpoint, region: 'eu-1' };
    const put = await admin.must('PUT', '/replication/peers/second', { endpoint, region: 'eu-1', ...keys });
    expect(put).toMatchObject(shown);
    const got = await admin.must('GET', '/replication/peers/second');
    expect(got).toEqual(put);
    expect(Object.keys(got).sort()).toEqual(['changedAt', 'endpoint', 'id', 'region']);
    const listed = await admin.must('GET', '/replication/peers');
    expect(listed['peers']).toContainEqual(got);
    const stored = JSON.stringify(await scanReplicationPeers(world.context.metadata, 10));
    expect(stored).toContain('second');
    expect(stored).not.toContain(keys.secretKey);
    expect(stored).not.toContain(keys.accessKey);
    expect((await admin.ask('DELETE', '/replication/peers/second')).status).toBe(204);
    expect((await admin.ask('GET', '/replication/peers/second')).status).toBe(404);
    expect((await admin.ask('DELETE', '/replication/peers/second')).status).toBe(404);
  });

  test.each([
    ['a path', { endpoint: `${endpoint}/path` }],
    ['credentials', { endpoint: 'https://me:pass@s3.example.com' }],
    ['another protocol', { endpoint: 'ftp://s3.example.com' }],
    ['no host', { endpoint: 'https://' }],
    ['a port that is none', { endpoint: 'https://s3.example.com:99999' }],
    ['a CA that is no certificate', { ca: 'trust me' }],
    ['no secret key', { secretKey: undefined }],
    ['an unknown field', { speed: 1 }],
    ['a bandwidth that is too small', { bandwidth: 65_535 }],
    ['a bandwidth that is a text', { bandwidth: '1000000' }],
    ['a proxy with credentials', { proxy: 'http://me:pass@proxy.example.com:3128' }],
    ['a proxy of another protocol', { proxy: 'socks5://proxy.example.com:1080' }],
    ['a certificate without its key', { cert: one.cert }],
    ['a key that is no key', { cert: one.cert, key: one.cert }],
  ])('a peer with %s is refused', async (_what, wrong) => {
    const body = { endpoint, ...keys, ...wrong };
    expect(await operatorOf(world).ask('PUT', '/replication/peers/wrong', body)).toMatchObject({
      status: 400,
    });
    expect((await operatorOf(world).ask('GET', '/replication/peers/wrong')).status).toBe(404);
  });

  test('DELETE of a peer is refused while a rule names it, and while versions wait for it', async () => {
    await using own = await openGateway();
    const admin = operatorOf(own);
    await admin.must('PUT', '/replication/peers/second', {
      endpoint: 'http://127.0.0.1:1',
      ...keys,
      accounts: [{ account: alice.owner, buckets: ['*'] }],
    });
    await makeRole(own);
    await own.client.put('/bucket');
    await setVersioning(own.client, 'bucket', 'Enabled');
    const rule = `<ReplicationConfiguration><Role>${roleArnOf(alice.owner)}</Role><Rule><Status>Enabled</Status><Prefix></Prefix><Destination><Bucket>arn:sluice:replication::second:copies</Bucket></Destination></Rule></ReplicationConfiguration>`;
    const configured = await own.client.put('/bucket?replication', { body: rule });
    expect(configured.status, configured.text).toBe(200);
    const named = await admin.ask('DELETE', '/replication/peers/second');
    expect([named.status, named.json['message']]).toEqual([
      409,
      expect.stringContaining('bucket names the peer second'),
    ]);
    await own.client.put('/bucket/key', { body: 'x' });
    expect((await own.client.delete('/bucket?replication')).status).toBe(204);
    const waited = await admin.ask('DELETE', '/replication/peers/second');
    expect([waited.status, waited.json['message']]).toEqual([
      409,
      expect.stringContaining('wait for second/copies'),
    ]);
    expect((await admin.ask('GET', '/replication/peers/second')).status).toBe(200);
  });

  test('PUT, the check and DELETE of a peer are audited without its keys', async () => {
    await using own = await openGateway();
    const admin = operatorOf(own);
    await admin.must('PUT', '/replication/peers/second', { endpoint: 'http://127.0.0.1:1', ...keys });
    await admin.must('POST', '/replication/peers/second/check', { bucket: 'copies' });
    await admin.must('DELETE', '/replication/peers/second');
    const rows = await auditRows(own.context);
    expect(rows.map(inShort).sort()).toEqual([
      'admin:CheckReplicationPeer replication-peer:second 200',
      'admin:DeleteReplicationPeer replication-peer:second 204',
      'admin:PutReplicationPeer replication-peer:second 200',
    ]);
    expect(JSON.stringify(rows)).not.toContain(keys.secretKey);
  });

  test('only operators read, change and check peers', async () => {
    const answers = await Promise.all([
      world.client.get('/admin/v1/replication/peers'),
      world.client.put('/admin/v1/replication/peers/x', { body: JSON.stringify({ endpoint, ...keys }) }),
      world.client.post('/admin/v1/replication/peers/x/check', { body: '{"bucket":"copies"}' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403]);
  });
});

describe('the check of a peer', () => {
  const ready = async (headers: Record<string, string> = {}) => {
    const { peer, endpoint } = await openPeer();
    await peer.client.put('/copies', { headers });
    const body = enabled;
    await peer.client.put('/copies?versioning', { body });
    return { peer, endpoint };
  };

  test('passes each step on a bucket with versioning, and leaves nothing there', async () => {
    const { peer, endpoint } = await ready();
    const { ok, states } = await check({ endpoint });
    expect(states).toEqual(
      ['reach', 'clock', 'sign', 'bucket', 'versioning', 'lock', 'site', 'write', 'remove'].map(
        (step) => `${step} passed`,
      ),
    );
    expect(ok).toBe(true);
    expect((await peer.client.get('/copies?versions')).all('VersionId')).toEqual([]);
  });

  test('writes nothing to a bucket whose default retention would lock the probe', async () => {
    const { peer, endpoint } = await ready({ 'x-amz-bucket-object-lock-enabled': 'true' });
    const rule = '<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>';
    const body = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${rule}</ObjectLockConfiguration>`;
    expect((await peer.client.put('/copies?object-lock', { body })).status).toBe(200);
    const { ok, states } = await check({ endpoint });
    expect(states.slice(-4)).toEqual(['lock passed', 'site passed', 'write skipped', 'remove skipped']);
    expect(ok).toBe(true);
    expect((await peer.client.get('/copies?versions')).all('VersionId')).toEqual([]);
  });

  test.each([
    [
      'with an unknown access key',
      { accessKey: 'UNKNOWN-KEY' },
      'InvalidAccessKeyId',
      /does not know the access key/,
    ],
    [
      'with a wrong secret key',
      { secretKey: 'not-the-secret-key' },
      'SignatureDoesNotMatch',
      /secret key is wrong/,
    ],
  ])('fails at sign %s', async (_what, wrong, found, advice) => {
    const { endpoint } = await ready();
    const { failed, states } = await check({ endpoint, ...wrong });
    expect(failed).toMatchObject({ step: 'sign', found });
    expect(failed?.advice).toMatch(advice);
    expect(states.slice(3)).toEqual(states.slice(3).map((state) => state.replace(/ \w+$/, ' skipped')));
  });

  test('fails at clock when the clock of the peer is two hours off', async () => {
    const clock = { ...systemClock, now: () => Date.now() - 2 * 60 * 60 * 1000 };
    const { endpoint } = await openPeer({ clock });
    const { failed } = await check({ endpoint });
    expect(failed).toMatchObject({ step: 'clock', found: expect.stringMatching(/72\d\d seconds behind/) });
    expect(failed?.advice).toMatch(/NTP/);
  });

  test('fails at bucket when the peer has none of that name, or denies it', async () => {
    const { peer, endpoint } = await openPeer();
    expect((await check({ endpoint })).failed).toMatchObject({ step: 'bucket', found: 'NoSuchBucket' });
    await peer.bob.put('/copies');
    const { failed } = await check({ endpoint });
    expect(failed).toMatchObject({ step: 'bucket', found: 'HTTP 403 AccessDenied' });
    expect(failed?.advice).toMatch(/s3:GetBucketVersioning/);
  });

  test('fails at versioning when the bucket has none', async () => {
    const { peer, endpoint } = await openPeer();
    await peer.client.put('/copies');
    const { failed } = await check({ endpoint });
    expect(failed).toMatchObject({ step: 'versioning', found: 'versioning is never enabled' });
  });

  test('fails at write when a policy denies PutObject, and at remove when it denies DeleteObjectVersion', async () => {
    const { peer, endpoint } = await ready();
    const deny = async (Action: string) => {
      const statement = { Effect: 'Deny', Principal: '*', Action, Resource: 'arn:aws:s3:::copies/*' };
      const body = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
      expect((await peer.client.put('/copies?policy', { body })).status).toBe(204);
    };
    await deny('s3:PutObject');
    expect((await check({ endpoint })).failed).toMatchObject({
      step: 'write',
      found: 'HTTP 403 AccessDenied',
    });
    await deny('s3:DeleteObjectVersion');
    const { failed } = await check({ endpoint });
    expect(failed).toMatchObject({ step: 'remove', found: 'HTTP 403 AccessDenied' });
    const [left] = (await peer.client.get('/copies?versions')).all('VersionId');
    expect(failed?.advice).toContain(`Version ${left} of .replication-check/`);
  });

  test('fails at reach when the address may not be reached', async () => {
    const { endpoint } = await ready();
    await using strict = await openGateway({ settings: { ...settings, SVC_EGRESS_ALLOW: '' } });
    const { failed } = await check({ endpoint }, strict);
    expect(failed).toMatchObject({ step: 'reach', found: expect.stringMatching(/SVC_EGRESS_ALLOW/) });
  });

  test('fails at reach when nothing listens', async () => {
    const { failed } = await check({ endpoint: 'http://127.0.0.1:1' });
    expect(failed).toMatchObject({ step: 'reach', found: expect.stringMatching(/ECONNREFUSED/) });
  });

  test('fails at reach when the peer does not answer, or answers half', async () => {
    await using hasty = await openGateway({ settings: { ...settings, SVC_REPLICATION_TIMEOUT: '200ms' } });
    const silent = await listen(() => {});
    expect((await check({ endpoint: silent }, hasty)).failed).toMatchObject({
      step: 'reach',
      found: expect.stringMatching(/200 ms/),
    });
    const half = await listen((_request, reply) => {
      reply.writeHead(200, { 'content-length': '1000' });
      reply.write('<Ver');
    });
    expect((await check({ endpoint: half }, hasty)).failed).toMatchObject({
      step: 'reach',
      found: expect.stringMatching(/200 ms/),
    });
  });

  test.each([
    ['sign', 'a page of another server', 404, '<html>no such page</html>', 'HTTP 404'],
    ['sign', 'an error of the server', 503, 'away', 'HTTP 503'],
    ['sign', 'a redirect', 307, '', 'a redirect (HTTP 307)'],
    [
      'versioning',
      'garbage with status 200',
      200,
      '{"hello":1}',
      'HTTP 200 without a versioning configuration',
    ],
  ])('fails at %s when the peer answers %s', async (step, _what, status, body, found) => {
    const asked: string[] = [];
    const endpoint = await listen((request, reply) => {
      asked.push(request.url ?? '');
      reply.writeHead(status, { location: 'http://169.254.169.254/latest/' }).end(body);
    });
    expect((await check({ endpoint })).failed).toMatchObject({ step, found });
    expect(asked).toEqual(['/copies?versioning=']);
  });

  test('fails at reach when an answer has no end', async () => {
    const endpoint = await listen((_request, reply) => {
      const more = (): void => {
        while (!reply.destroyed && reply.write(new Uint8Array(65_536)));
      };
      reply.on('drain', more);
      more();
    });
    expect((await check({ endpoint })).failed).toMatchObject({
      step: 'reach',
      found: 'an answer of more than 262144 bytes',
    });
  });

  test('trusts the certificates of the peer by its ca alone', async () => {
    const endpoint = await listen((_request, reply) => reply.writeHead(404).end(), one);
    const untrusted = { step: 'reach', found: expect.stringMatching(/certificate/) };
    expect((await check({ endpoint })).failed).toMatchObject(untrusted);
    expect((await check({ endpoint, ca: two.cert })).failed).toMatchObject(untrusted);
    expect((await check({ endpoint, ca: one.cert })).failed).toMatchObject({ step: 'sign' });
  });

  test('shows its own certificate to a peer that asks for one, and keeps its key sealed', async () => {
    const tls = { ...one, ca: two.cert, requestCert: true, rejectUnauthorized: true };
    const endpoint = await listen((_request, reply) => reply.writeHead(404).end(), tls);
    expect((await check({ endpoint, ca: one.cert })).failed).toMatchObject({ step: 'reach' });
    const known = await check({ endpoint, ca: one.cert, cert: two.cert, key: two.key });
    expect(known.failed).toMatchObject({ step: 'sign' });
    const admin = operatorOf(world);
    const shown = await admin.must('GET', '/replication/peers/far');
    expect(shown).toMatchObject({ cert: two.cert });
    const stored = JSON.stringify([shown, await scanReplicationPeers(world.context.metadata, 10)]);
    expect(stored).not.toContain('PRIVATE KEY');
  });

  test('reaches the peer through a proxy, with TLS inside of the tunnel', async () => {
    const proxy = await openProxy();
    const { endpoint } = await ready();
    expect((await check({ endpoint, proxy: proxy.url })).ok).toBe(true);
    expect(new Set(proxy.tunnels)).toEqual(new Set([new URL(endpoint).host]));
    const secure = await listen((_request, reply) => reply.writeHead(404).end(), one);
    expect((await check({ endpoint: secure, proxy: proxy.url })).failed).toMatchObject({ step: 'reach' });
    const trusted = await check({ endpoint: secure, proxy: proxy.url, ca: one.cert });
    expect(trusted.failed).toMatchObject({ step: 'sign' });
  });

  test('says why a proxy is of no use', async () => {
    const { endpoint } = await ready();
    const refusing = await openProxy(403);
    const refused = { step: 'reach', found: expect.stringContaining('403') };
    expect((await check({ endpoint, proxy: refusing.url })).failed).toMatchObject(refused);
    await using strict = await openGateway({ settings: { ...settings, SVC_EGRESS_ALLOW: '' } });
    for (const host of ['127.0.0.1', 'localhost']) {
      const proxy = refusing.url.replace('127.0.0.1', host);
      const { failed } = await check({ endpoint: 'http://s3.example.com', proxy }, strict);
      expect(failed).toMatchObject({
        step: 'reach',
        found: expect.stringContaining('SVC_EGRESS_ALLOW does not contain it'),
      });
    }
    // A proxy leads to no address that is refused.
    const { failed } = await check({ endpoint: 'http://169.254.169.254', proxy: refusing.url });
    expect(failed?.found).toContain('SVC_EGRESS_ALLOW does not contain it');
  });
});
