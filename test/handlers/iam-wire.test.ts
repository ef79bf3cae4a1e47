/** IAM and STS actions over HTTP, and their error replies. */
import { describe, expect, test } from 'vitest';
import { formOf, formType, openActions } from '../support/actions.ts';
import { alice, openGateway } from '../support/gateway.ts';

const whoAmI = { Action: 'GetCallerIdentity', Version: '2011-06-15' };
const rootArn = 'arn:aws:iam::alice-account:root';

describe('an action', () => {
  test('is accepted as a form signed for sts, without a hash header', async () => {
    await using world = await openGateway();
    const answer = await openActions(world)('GetCallerIdentity');
    expect([answer.status, answer.one('Arn')]).toEqual([200, rootArn]);
    expect([answer.one('Account'), answer.one('UserId')]).toEqual(['alice-account', 'alice-account']);
    expect(answer.text).toContain(
      '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>',
    );
    expect(answer.text).toContain(`<RequestId>${answer.header('*-request-id')}</RequestId>`);
    expect(answer.header('content-type')).toBe('text/xml');
  });

  test('has its request id in x-amzn-requestid, where the SDKs read that of IAM and STS; S3 replies have none', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    for (const answer of [
      await iam('GetCallerIdentity'),
      await iam('ListUsers'),
      await iam('GetUser', { UserName: 'missing' }),
      await iam('NoSuchAction'),
      await world.anonymous.post('/', { body: formOf(whoAmI), headers: formType }),
    ]) {
      expect(answer.header('x-amzn-requestid')).toMatch(/^[0-9A-F]+$/);
      expect(answer.text).toContain(`<RequestId>${answer.header('x-amzn-requestid')}</RequestId>`);
    }
    expect((await world.client.get('/')).header('x-amzn-requestid')).toBeUndefined();
  });

  test.each(['s3', 'iam', 'sts'] as const)(
    'is accepted as a form or in the URL, signed for %s',
    async (service) => {
      await using world = await openGateway();
      for (const dialect of ['amz', 'store'] as const) {
        const client = world.as({ service, dialect });
        for (const answer of [
          await client.post('/', { body: formOf(whoAmI), headers: formType }),
          await client.get('/', { query: whoAmI }),
          await client.post('/', { query: whoAmI }),
          await client.post('/', {
            query: { Version: whoAmI.Version },
            body: 'Action=GetCallerIdentity',
            headers: formType,
          }),
          await client.presigned('GET', '/', { query: whoAmI, ...hashOfNothing(service) }),
        ])
          expect([answer.status, answer.one('Arn')]).toEqual([200, rootArn]);
      }
    },
  );

  test.each(['iam', 'sts', 's3'] as const)(
    'in a URL for %s lives fifteen minutes where the URL names no time, but for S3',
    async (service) => {
      await using world = await openGateway();
      const client = world.as({ service });
      const answer = (date: number) =>
        client.presigned('GET', '/', {
          query: whoAmI,
          ...hashOfNothing(service),
          expires: 'missing',
          date: new Date(date),
        });
      const now = world.context.clock.now();
      const answers = [await answer(now), await answer(now - 14 * 60_000), await answer(now - 16 * 60_000)];
      expect(answers.map(({ status }) => status)).toEqual(
        service === 's3' ? [400, 400, 400] : [200, 200, 403],
      );
    },
  );

  test('is served under a mount path and with a strict region, which global services do not have', async () => {
    await using world = await openGateway({
      basePath: '/storage',
      settings: { SVC_REGION: 'eu-west-3', SVC_REGION_STRICT: 'true' },
    });
    const ask = { body: formOf(whoAmI), headers: formType };
    expect((await world.as({ service: 'sts' }).post('/storage/', ask)).one('Arn')).toBe(rootArn);
    expect((await world.as({ service: 's3' }).post('/storage/', ask)).code).toBe('IncompleteSignature');
  });
});

/** Presigners of IAM and STS sign the hash of the body; those of S3 do not. */
const hashOfNothing = (service: string) =>
  service === 's3'
    ? {}
    : { tamper: { contentSha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' } };

describe('refused in the words of the IAM API is', () => {
  test('an action that there is not, or none', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const unknown = await iam('MakeCoffee');
    expect([unknown.status, unknown.code, unknown.one('Type')]).toEqual([400, 'InvalidAction', 'Sender']);
    expect(unknown.text).toContain(
      '<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error>',
    );
    expect(unknown.one('RequestId')).toBe(unknown.header('*-request-id'));
    expect((await iam('GetCallerIdentity', { Version: '2010-05-08' })).code).toBe('InvalidAction');
    const none = await world.as({ service: 'iam' }).post('/', { body: 'UserName=x', headers: formType });
    expect([none.status, none.code]).toEqual([400, 'MissingAction']);
    const put = await world.client.put('/', { query: whoAmI });
    expect([put.status, put.code]).toEqual([405, 'MethodNotAllowed']);
    expect(put.header('allow')).toBe('GET, POST');
    expect((await world.client.send('ANY', '//', { query: whoAmI })).status).toBe(405);
  });

  test('an unsigned action, whose body is not read', async () => {
    await using world = await openGateway();
    let read = 0;
    const arriving = async function* (body: Uint8Array) {
      read += 1;
      yield body;
    };
    const answer = await world.anonymous.post('/', { body: formOf(whoAmI), headers: formType, arriving });
    expect([answer.status, answer.code, read]).toEqual([403, 'MissingAuthenticationToken', 0]);
    const stranger = { ...alice, accessKey: 'AKIASTRANGER' };
    const ask = { body: formOf(whoAmI), headers: formType, payload: 'missing', arriving } as const;
    const unknown = await world.as({ service: 'sts', credential: stranger }).post('/', ask);
    expect([unknown.status, unknown.code, read]).toEqual([403, 'InvalidClientTokenId', 0]);
  });

  test('a form that is not the one that was signed', async () => {
    await using world = await openGateway();
    const other = Buffer.from(formOf({ ...whoAmI, Extra: 'x' }));
    const act = openActions(world);
    const answer = await act('GetCallerIdentity', {}, { tamper: { body: () => other } });
    expect([answer.status, answer.code]).toEqual([403, 'SignatureDoesNotMatch']);
    for (const payload of ['unsigned', 'streaming', 'unsigned-trailer'] as const) {
      const open = await act('GetCallerIdentity', {}, { payload });
      expect([open.status, open.code]).toEqual([400, 'InvalidRequest']);
    }
    const declared = await act('GetCallerIdentity', {}, { payload: 'signed', tamper: { body: () => other } });
    expect([declared.status, declared.code]).toEqual([403, 'SignatureDoesNotMatch']);
  });

  test('a presigned URL with a form that it does not cover', async () => {
    await using world = await openGateway();
    const body = formOf(whoAmI);
    for (const service of ['s3', 'sts'] as const) {
      const ask = { body, headers: formType, ...hashOfNothing(service) };
      const answer = await world.as({ service }).presigned('POST', '/', ask);
      expect([answer.status >= 400, answer.status < 500]).toEqual([true, true]);
    }
  });

  test('a parameter that is given twice, in one place or in both, or that is not known', async () => {
    await using world = await openGateway();
    const client = world.as({ service: 'sts' });
    const twice = [
      { body: `${formOf(whoAmI)}&Action=GetCallerIdentity`, headers: formType },
      { body: formOf(whoAmI), headers: formType, query: { Action: 'CreateUser' } },
      { body: formOf(whoAmI), headers: formType, query: { Version: '2011-06-15' } },
    ];
    for (const ask of twice) expect((await client.post('/', ask)).code).toBe('InvalidParameterCombination');
    const unknown = await client.get('/', { query: { ...whoAmI, UserName: 'x' } });
    expect([unknown.status, unknown.code]).toEqual([400, 'ValidationError']);
    for (const name of ['__proto__', 'constructor', 'toString', 'a.b.c.d.e.f.g.h'])
      expect((await client.get('/', { query: { ...whoAmI, [name]: 'x' } })).code).toBe('ValidationError');
  });

  test('a body that is too long, no form, or not UTF-8', async () => {
    await using world = await openGateway();
    const act = openActions(world);
    expect((await act('GetCallerIdentity', { Long: 'x'.repeat(130 * 1024) })).code).toBe(
      'MaxMessageLengthExceeded',
    );
    const client = world.as({ service: 'sts' });
    const text = await client.post('/', {
      query: whoAmI,
      body: 'Marker=1',
      headers: { 'content-type': 'text/plain' },
    });
    expect([text.status, text.code]).toEqual([400, 'InvalidRequest']);
    for (const body of [Buffer.from([0x61, 0x3d, 0xff]), 'Action=%ff', 'Action=%zz'])
      expect((await client.post('/', { body, headers: formType })).code).toBe('MalformedQueryString');
    const many = Array.from({ length: 1_001 }, (_, index) => `p${index}=`).join('&');
    expect((await client.post('/', { body: many, headers: formType })).code).toBe('MalformedQueryString');
  });

  test('a signature for iam on anything but an action', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    for (const path of ['/', '/bucket', '/bucket/key?Action=GetCallerIdentity']) {
      const answer = await world.as({ service: 'iam' }).get(path);
      expect([answer.status, answer.code]).toEqual([400, 'AuthorizationHeaderMalformed']);
    }
  });
});
