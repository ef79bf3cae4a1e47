/** The hook `authorize` of `openGateway`: an application's own sessions in place of access keys. */
import { setTimeout as rest } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import {
  type AccessKey,
  type Authorize,
  type AuthorizeFacts,
  memory,
  type OpenGateway,
  openGateway,
} from '../../src/mod.ts';
import { signer, toRequest } from '../support/sign.ts';

const me: AccessKey = {
  accessKey: 'ACCESSKEY',
  secretKey: 'secret-of-me',
  owner: 'me',
  root: true,
  operator: true,
};
const you: AccessKey = { accessKey: 'OTHERKEY', secretKey: 'secret-of-you', owner: 'you', root: true };
const host = 'app.example.com';
const key = signer({ ...me, host });
const other = signer({ ...you, host });

/** The sessions of an application: a cookie names the user, who has a directory of the bucket `photos`. */
const byCookie: Authorize = ({ headers }, { bucket, key, prefix = '' }) => {
  const user = /(?:^|; )user=(\w+)/.exec(headers.get('cookie') ?? '')?.[1];
  if (user === undefined) return undefined;
  const isOwn = (key === '' ? prefix : key).startsWith(`${user}/`);
  return bucket === 'photos' && isOwn ? { owner: 'me', name: user } : { refusal: `${user} may use ${user}/` };
};

async function open(authorize: Authorize = byCookie): Promise<OpenGateway> {
  const gateway = await openGateway({
    credentials: [me, you],
    storage: memory(),
    workers: false,
    authorize,
  });
  for (const by of [
    key.request({ method: 'PUT', path: '/photos' }),
    other.request({ method: 'PUT', path: '/yours' }),
  ])
    expect((await gateway.fetch(toRequest(by))).status).toBe(200);
  return gateway;
}

interface Sending {
  readonly method?: string;
  readonly body?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends an unsigned request with the cookie of a user. */
function send(gateway: OpenGateway, user: string, path: string, { headers, ...init }: Sending = {}) {
  const request = new Request(`http://${host}${path}`, {
    ...init,
    headers: { cookie: `theme=dark; user=${user}`, ...headers },
    ...(init.body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);
  return gateway.fetch(request, { remote: '192.0.2.7' });
}

const put = (body: string): Sending => ({
  method: 'PUT',
  body,
  headers: { 'content-length': String(body.length) },
});

const policy = (...statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });
const setPolicy = async (
  gateway: OpenGateway,
  by: typeof key,
  bucket: string,
  ...statements: readonly object[]
) => {
  const request = by.request({
    method: 'PUT',
    path: `/${bucket}`,
    query: { policy: '' },
    body: policy(...statements),
  });
  expect((await gateway.fetch(toRequest(request))).status).toBe(204);
};

test('a session reads and writes what the application lets it, and nothing else', async () => {
  await using gateway = await open();
  expect((await send(gateway, 'ann', '/photos/ann/cat', put('meow'))).status).toBe(200);
  expect(await (await send(gateway, 'ann', '/photos/ann/cat')).text()).toBe('meow');
  const refused = await send(gateway, 'bob', '/photos/ann/cat');
  expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining('bob may use bob/')]);
  expect((await gateway.fetch(new Request(`http://${host}/photos/ann/cat`))).status).toBe(403);
  expect((await send(gateway, 'ann', '/photos?list-type=2&prefix=ann/')).status).toBe(200);
  expect((await send(gateway, 'ann', '/photos?list-type=2')).status).toBe(403);
  expect((await send(gateway, 'ann', '/')).status).toBe(403);
});

test('the source of a copy and every key of DeleteObjects need a permission of their own', async () => {
  const asked: AuthorizeFacts[] = [];
  await using gateway = await open((request, facts) => {
    asked.push(facts);
    // The first call of DeleteObjects is about the bucket.
    if (facts.operation === 'DeleteObjects' && facts.key === '') return { owner: 'me', name: 'ann' };
    return byCookie(request, facts);
  });
  for (const name of ['ann', 'bob'])
    expect((await send(gateway, name, `/photos/${name}/cat`, put(name))).status).toBe(200);
  const copy = (source: string) =>
    send(gateway, 'ann', '/photos/ann/copy', {
      method: 'PUT',
      headers: { 'x-amz-copy-source': source, 'content-length': '0' },
    });
  expect((await copy('/photos/bob/cat')).status).toBe(403);
  expect((await copy('/photos/ann/cat')).status).toBe(200);
  expect(asked.at(-1)).toEqual({
    operation: 'CopyObject',
    action: 's3:GetObject',
    bucket: 'photos',
    key: 'ann/cat',
    remote: '192.0.2.7',
  });
  const body = '<Delete><Object><Key>ann/copy</Key></Object><Object><Key>bob/cat</Key></Object></Delete>';
  const deleted = await send(gateway, 'ann', '/photos?delete', {
    method: 'POST',
    body,
    headers: { 'content-length': String(body.length) },
  });
  const text = await deleted.text();
  expect(text).toMatch(/<Deleted><Key>ann\/copy</);
  expect(text).toMatch(/<Error><Key>bob\/cat<\/Key>.*AccessDenied/);
  expect(await (await send(gateway, 'bob', '/photos/bob/cat')).text()).toBe('bob');
});

test('a Deny of the bucket policy holds for sessions, and names them', async () => {
  await using gateway = await open();
  await send(gateway, 'ann', '/photos/ann/cat', put('meow'));
  const action = { Action: 's3:GetObject', Resource: 'arn:aws:s3:::photos/*' };
  await setPolicy(gateway, key, 'photos', {
    Effect: 'Deny',
    Principal: { AWS: 'arn:aws:iam::me:application/ann' },
    ...action,
  });
  expect((await send(gateway, 'ann', '/photos/ann/cat')).status).toBe(403);
  expect((await send(gateway, 'ann', '/photos/ann/dog', put('wuff'))).status).toBe(200);
  await send(gateway, 'bob', '/photos/bob/cat', put('miau'));
  expect((await send(gateway, 'bob', '/photos/bob/cat')).status).toBe(200);
});

test('in a bucket of another account a session has what both the application and that policy allow', async () => {
  await using gateway = await open((_, { key }) =>
    key === 'kept' ? undefined : { owner: 'me', name: 'ann' },
  );
  expect((await send(gateway, 'ann', '/yours/cat', put('meow'))).status).toBe(403);
  await setPolicy(gateway, other, 'yours', {
    Effect: 'Allow',
    Principal: { AWS: 'arn:aws:iam::me:root' },
    Action: 's3:PutObject',
    Resource: 'arn:aws:s3:::yours/*',
  });
  expect((await send(gateway, 'ann', '/yours/cat', put('meow'))).status).toBe(200);
  expect((await send(gateway, 'ann', '/yours/kept', put('meow'))).status).toBe(403);
});

test('what everyone may read, the application may still refuse to a session, as the source of a copy too', async () => {
  await using gateway = await open((_, { action }) =>
    action === 's3:GetObject' ? undefined : { owner: 'me', name: 'ann' },
  );
  await send(gateway, 'ann', '/photos/cat', put('meow'));
  await setPolicy(gateway, key, 'photos', {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::photos/*',
  });
  const headers = { 'x-amz-copy-source': '/photos/cat', 'content-length': '0' };
  expect((await send(gateway, 'ann', '/photos/copy', { method: 'PUT', headers })).status).toBe(403);
  expect((await send(gateway, 'ann', '/photos/cat')).status).toBe(403);
});

test('the answer "anonymous" keeps public buckets public; without an answer they are closed', async () => {
  let answer: 'anonymous' | undefined = 'anonymous';
  await using gateway = await open(() => answer);
  await gateway.fetch(toRequest(key.request({ method: 'PUT', path: '/photos/cat', body: 'meow' })));
  await setPolicy(gateway, key, 'photos', {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::photos/*',
  });
  expect((await send(gateway, 'ann', '/photos/cat')).status).toBe(200);
  expect((await send(gateway, 'ann', '/photos/dog', put('wuff'))).status).toBe(403);
  answer = undefined;
  expect((await send(gateway, 'ann', '/photos/cat')).status).toBe(403);
});

test('signed requests, presigned links and the areas of operators never reach the hook', async () => {
  const authorize = vi.fn<Authorize>(() => undefined);
  await using gateway = await open(authorize);
  expect((await gateway.fetch(toRequest(key.request({ path: '/photos' })))).status).toBe(200);
  const link = gateway.presign({
    method: 'GET',
    origin: `http://${host}`,
    bucket: 'photos',
    key: 'x',
    expiresSeconds: 60,
  });
  expect((await gateway.fetch(new Request(link))).status).toBe(404);
  expect((await send(gateway, 'ann', '/admin/v1/buckets')).status).toBe(403);
  const action = 'Action=CreateUser&UserName=eve';
  const iam = await send(gateway, 'ann', '/', {
    method: 'POST',
    body: action,
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': String(action.length) },
  });
  expect(iam.status).toBe(403);
  expect(authorize).not.toHaveBeenCalled();
});

const wrongHooks: readonly (readonly [string, () => unknown])[] = [
  ['throws', () => Promise.reject(new Error('the database of sessions is down'))],
  ['answers true', () => true],
  ['answers an account that does not exist', () => ({ owner: 'nobody-here' })],
  ['answers a name that no ARN can have', () => ({ owner: 'me', name: 'ann/../bob' })],
];
test.each(wrongHooks)(
  'where the hook %s, the request fails with 500 and nothing is stored',
  async (_, authorize) => {
    await using gateway = await open(authorize as Authorize);
    const failed = await send(gateway, 'ann', '/photos/cat', put('meow'));
    expect([failed.status, await failed.text()]).toEqual([
      500,
      expect.not.stringContaining('database of sessions'),
    ]);
    expect((await gateway.fetch(toRequest(key.request({ path: '/photos/cat' })))).status).toBe(404);
  },
);

test('a session is asked for again at the end of a body that took more than a second', async () => {
  let isLoggedIn = true;
  await using gateway = await open(() => (isLoggedIn ? { owner: 'me', name: 'ann' } : undefined));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!isLoggedIn) return controller.close();
      controller.enqueue(new TextEncoder().encode('me'));
      // Longer than the second for which a decision holds.
      await rest(1_100);
      isLoggedIn = false;
      controller.enqueue(new TextEncoder().encode('ow'));
    },
  });
  const late = await send(gateway, 'ann', '/photos/cat', {
    method: 'PUT',
    body,
    headers: { 'content-length': '4' },
  });
  expect(late.status).toBe(403);
  expect((await gateway.fetch(toRequest(key.request({ path: '/photos/cat' })))).status).toBe(404);
});

test('a form of the page needs no signature where the application knows the session', async () => {
  await using gateway = await open();
  const form = new FormData();
  form.set('key', 'ann/from-a-form');
  form.set('file', new Blob(['hello']), 'cat.jpg');
  // As bytes, because Node's stream of a form throws when a refusal cancels it.
  const encoded = new Response(form);
  const body = await encoded.bytes();
  const headers = { 'content-type': encoded.headers.get('content-type') ?? '' };
  const post = async (user: string) =>
    (await send(gateway, user, '/photos', { method: 'POST', body, headers })).status;
  expect(await post('ann')).toBe(204);
  expect(await (await send(gateway, 'ann', '/photos/ann/from-a-form')).text()).toBe('hello');
  expect(await post('bob')).toBe(403);
});

test('the audit log names session, account and address, of changes and of refusals', async () => {
  await using gateway = await open();
  await send(gateway, 'ann', '/photos/ann/cat', put('meow'));
  await send(gateway, 'bob', '/photos/ann/cat', put('mine'));
  const audit = await gateway.fetch(
    toRequest(key.request({ path: '/admin/v1/audit', query: { key: 'ann/cat' } })),
  );
  const { rows } = (await audit.json()) as { readonly rows: readonly object[] };
  expect(rows).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        action: 'PutObject',
        principal: 'arn:aws:iam::me:application/ann',
        account: 'me',
        source: '192.0.2.7',
        status: 200,
      }),
      expect.objectContaining({
        action: 'PutObject',
        status: 403,
        error: 'AccessDenied',
        source: '192.0.2.7',
      }),
    ]),
  );
});
