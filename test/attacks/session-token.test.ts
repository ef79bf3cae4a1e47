/** Invalid session tokens, each beside a valid one. */
import { describe, expect, test } from 'vitest';
import { openToken, sealToken } from '../../src/auth/session/sessions.ts';
import { openActions } from '../support/actions.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import type { ClientOptions } from '../support/gateway-client.ts';
import { allow, assume, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';

async function open() {
  const world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  const carol = await openUser(world, 'carol', { policy: allow('*') });
  const session = async () => sessionOf(world, await must(carol.act('GetSessionToken')));
  const first = await session();
  const get = async (options: ClientOptions): Promise<string> => {
    const answer = await world.as(options).get('/bucket/key');
    return answer.status === 200 ? 'ok' : answer.code;
  };
  expect(await get(first.options)).toBe('ok');
  return { world, carol, first, second: await session(), get };
}

describe('refused is', () => {
  test('the key of one session with the token of another, or none', async () => {
    const { world, first, second, get } = await open();
    await using _ = world;
    const { credential, token } = first.options;
    expect(await get({ credential, token: second.options.token })).toBe('InvalidToken');
    expect(await get({ credential: second.options.credential, token })).toBe('InvalidToken');
    expect(await get({ credential })).toBe('InvalidAccessKeyId');
  });

  test('a session token with a key that has none', async () => {
    const { world, carol, first, get } = await open();
    await using _ = world;
    for (const credential of [alice, carol.credential])
      for (const token of [first.options.token, 'x', ''])
        expect(await get({ credential, token })).toBe('InvalidToken');
    expect(await get({ credential: carol.credential })).toBe('ok');
  });

  test('a token with any bit changed, cut, or made longer', async () => {
    const { world, first, get } = await open();
    await using _ = world;
    const { credential, token } = first.options;
    const bytes = Buffer.from(token, 'base64');
    for (let at = 0; at < bytes.length; at += 7) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(await get({ credential, token: changed.toString('base64') })).toBe('InvalidToken');
    }
    for (const other of [token.slice(0, -4), `${token}AAAA`, token.repeat(40), '%%%', 'AAAA', '0'])
      expect(await get({ credential, token: other })).toBe('InvalidToken');
  });

  test('a token of another master key, and anything else that was sealed under this one', async () => {
    const { world, first, get } = await open();
    await using _ = world;
    await using elsewhere = await openGateway();
    const claims = await openToken(world.context.sealer, first.options.token);
    const own = await sealToken(world.context.sealer, claims);
    const { credential } = first.options;
    expect(await get({ credential, token: own })).toBe('ok');
    const foreign = await sealToken(elsewhere.context.sealer, claims);
    expect(await get({ credential, token: foreign })).toBe('InvalidToken');
    const plain = new TextEncoder().encode(JSON.stringify(claims));
    const other = await world.context.sealer.seal(plain, `access key ${credential.accessKey}`);
    expect(await get({ credential, token: Buffer.from(other).toString('base64') })).toBe('InvalidToken');
  });

  test('a token of a role’s session that does not name who assumed the role', async () => {
    const { world, carol, get } = await open();
    await using _ = world;
    const iam = openActions(world);
    const AssumeRolePolicyDocument = trusting({ AWS: alice.owner });
    const role = await must(iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument }));
    const PolicyDocument = allow('s3:*');
    await must(iam('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument }));
    const session = await assume(world, carol.act, { role: role.one('Arn') ?? '' });
    const { credential, token } = session.options;
    expect(await get({ credential, token })).toBe('ok');
    const { by, ...claims } = await openToken(world.context.sealer, token);
    expect(by?.account).toBe(alice.owner);
    const unnamed = await sealToken(world.context.sealer, claims);
    expect(await get({ credential, token: unnamed })).toBe('ExpiredToken');
  });

  test('a session token that the signature does not cover, or that is repeated', async () => {
    const { world, first, second, get } = await open();
    await using _ = world;
    const { credential, token } = first.options;
    const bare = world.as({ credential });
    const unsigned = await bare.get('/bucket/key', { unsignedHeaders: { '*-security-token': token } });
    expect(unsigned.code).toBe('AccessDenied');
    const inQuery = await bare.get('/bucket/key', { query: { 'X-Amz-Security-Token': token } });
    expect(inQuery.code).toBe('InvalidToken');
    const twice = [
      ['*-security-token', token],
      ['*-security-token', second.options.token],
    ] as const;
    expect((await bare.get('/bucket/key', { headers: twice })).code).toBe('InvalidToken');
    const late = await bare.presigned('GET', '/bucket/key', {
      unsignedHeaders: { '*-security-token': token },
    });
    expect(late.code).toBe('AccessDenied');
    expect(await get({ credential, token })).toBe('ok');
  });
});

test('nothing of a session can be read from its token', async () => {
  const { world, first } = await open();
  await using _ = world;
  const { credential, token } = first.options;
  const bytes = Buffer.from(token, 'base64').toString('latin1');
  for (const secret of [credential.secretKey, credential.accessKey, 'alice-account', 'AIDA'])
    expect(bytes + token).not.toContain(secret);
});

test('SignatureDoesNotMatch does not echo the session token', async () => {
  const { world, first } = await open();
  await using _ = world;
  const options = { ...first.options, credential: { ...first.options.credential, secretKey: 'wrong' } };
  for (const answer of [
    await world.as(options).get('/bucket/key'),
    await world.as(options).presigned('GET', '/bucket/key'),
  ]) {
    expect(answer.code).toBe('SignatureDoesNotMatch');
    expect(answer.text).not.toContain(first.options.token.slice(0, 40));
    expect(answer.text).not.toContain(encodeURIComponent(first.options.token.slice(0, 40)));
  }
});

test('a session of one account has no rights of another', async () => {
  const { world, carol } = await open();
  await using _ = world;
  await world.bob.put('/bobs');
  const mallory = await openUser(world, 'carol', { root: bob, policy: allow('*') });
  const session = sessionOf(world, await must(mallory.act('GetSessionToken')));
  expect((await world.as(session.options).get('/bucket/key')).code).toBe('AccessDenied');
  expect((await world.as(session.options).get('/bobs')).status).toBe(200);
  expect((await must(session.act('GetCallerIdentity'))).one('Account')).toBe('bob-account');
  await must(
    openActions(world)('DeleteAccessKey', { UserName: 'carol', AccessKeyId: carol.credential.accessKey }),
  );
  expect((await session.act('GetCallerIdentity')).status).toBe(200);
});
