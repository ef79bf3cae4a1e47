/** Policy documents: what is accepted, and the position that a refusal names; no element is ignored (docs/security.md). */
import { describe, expect, test } from 'vitest';
import { type DocumentOptions, parsePolicy, policySizes } from '../../../src/auth/policy/document.ts';
import { storageActions } from '../../../src/auth/policy/statement.ts';
import { describeOperation, operationNames } from '../../../src/protocol/operations/operations.ts';
import { fill, refusalOf, type Written, write } from './world.ts';

const refused = (text: string, options: DocumentOptions): string | undefined =>
  refusalOf(() => parsePolicy(text, options));
const refusedStatement = (statement: Written, options: Partial<DocumentOptions> = {}): string | undefined => {
  const kind = options.kind ?? 'bucket';
  return refused(write(fill(kind, {}), fill(kind, statement)), { kind, ...options });
};
const condition = (operator: string, key: string, value: unknown): Written => ({
  Condition: { [operator]: { [key]: value } },
});

describe('whole documents', () => {
  test.each([
    ['', 'not valid JSON at character 1'],
    ['[]', 'must be a JSON object'],
    ['{"Statement":[]}', 'Statement: must not be empty'],
    ['{}', 'needs Statement'],
    ['{"Statement":[{}],}', 'not valid JSON'],
    ['{"Statement":[{}]} x', 'not valid JSON'],
    ['{"Version":"2013-01-01","Statement":[{}]}', 'Version: must be'],
    ['{"Version":null,"Statement":[{}]}', 'Version: must be'],
    ['{"Id":1,"Statement":[{}]}', 'Id: must be text'],
    ['{"statement":[{}]}', 'has "statement", which is no element'],
    ['{"__proto__":{},"Statement":[{}]}', 'has "__proto__"'],
    ['{"Statement":[{}],"Statement":[{}]}', 'has "Statement" more than once'],
    ['{"Statement":[{"Effect":"Deny","Effect":"Allow"}]}', 'Statement[0]: has "Effect" more than once'],
    ['{"Statement":[{"Effect":"Deny","\\u0045ffect":"Allow"}]}', 'Statement[0]: has "Effect" more than once'],
    ['{"Statement":["x"]}', 'Statement[0]: must be an object'],
    [`${'['.repeat(50_000)}`, 'larger than'],
    [`{"Statement":${'['.repeat(500)}`, 'nested deeper'],
  ])('%.60s is refused', (text, message) => {
    expect(refused(text, { kind: 'bucket' })).toContain(message);
  });

  test('one statement need not be in a list, and both versions are known', () => {
    for (const Version of ['2008-10-17', '2012-10-17', undefined]) {
      const text = JSON.stringify({ Version, Id: 'x', Statement: fill('bucket', {}) });
      expect(parsePolicy(text, { kind: 'bucket' }).version).toBe(Version ?? '2008-10-17');
    }
  });

  test('sizes are refused just above their limit', () => {
    const pad = (size: number, kind: DocumentOptions['kind']): string => {
      const text = (length: number): string =>
        JSON.stringify({ Id: 'x'.repeat(length), Statement: fill(kind, {}) });
      return text(size - text(0).length);
    };
    for (const [kind, limit] of [
      ['bucket', 20_480],
      ['access-point', 20_480],
      ['identity', 6144],
      ['session', 2048],
      ['trust', 2048],
    ] as const) {
      expect(refused(pad(limit, kind), { kind })).toBeUndefined();
      expect(refused(pad(limit + 1, kind), { kind })).toMatch(`larger than ${limit} `);
    }
    expect(
      refused(pad(policySizes.roleInline, 'identity'), { kind: 'identity', sizeMax: policySizes.roleInline }),
    ).toBeUndefined();
    const blank = `${pad(6144, 'identity')}${' '.repeat(10_000)}`;
    expect(refused(blank, { kind: 'identity' })).toBeUndefined();
    expect(refused(`${blank}${' '.repeat(131_072)}`, { kind: 'identity' })).toMatch(
      'larger than 131072 bytes',
    );
    const wide = JSON.stringify({ Id: 'é'.repeat(10_240), Statement: fill('bucket', {}) });
    expect(refused(wide, { kind: 'bucket' })).toMatch('larger than 20480 bytes');
  });
});

describe('statements', () => {
  test.each<[string, Written, string]>([
    ['an unknown element', { Conditions: {} }, 'Statement[1]: "Conditions" is no element'],
    ['another effect', { Effect: 'allow' }, 'Statement[1].Effect: must be'],
    [
      'Action and NotAction',
      { Action: 's3:*', NotAction: 's3:*' },
      'Statement[1]: has both Action and NotAction',
    ],
    ['Resource and NotResource', { Resource: '*', NotResource: '*' }, 'has both Resource and NotResource'],
    [
      'Principal and NotPrincipal',
      { Principal: '*', NotPrincipal: '*' },
      'has both Principal and NotPrincipal',
    ],
    [
      'NotPrincipal that allows',
      { NotPrincipal: { AWS: '111122223333' } },
      'Statement[1].NotPrincipal: must stand in a statement that denies',
    ],
    ['no action at all', { Action: [] }, 'Statement[1].Action: must not be empty'],
    ['a number as action', { Action: [1] }, 'Statement[1].Action: must be a string'],
    [
      'an action without service',
      { Action: 'GetObject' },
      'Statement[1].Action: "GetObject" is not an action',
    ],
    [
      'an action that does not exist',
      { Action: 's3:GetObjekt' },
      '"s3:GetObjekt" is not an action of this kind',
    ],
    ['another service', { Action: 'sqs:SendMessage' }, '"sqs:SendMessage" is not an action of this kind'],
    [
      'a resource that is no ARN',
      { Resource: 'photos/*' },
      'Statement[1].Resource: "photos/*" is not an ARN',
    ],
    ['a short ARN', { Resource: 'arn:aws:s3:photos' }, 'is not an ARN'],
    [
      'an unknown variable',
      { Resource: `arn:aws:s3:::photos/\${aws:nobody}` },
      'aws:nobody} is no policy variable',
    ],
    [
      'an open variable',
      { Resource: `arn:aws:s3:::photos/\${aws:username` },
      'has a variable that does not end',
    ],
    [
      'a variable of several values',
      { Resource: `arn:aws:s3:::photos/\${aws:TagKeys}` },
      'has several values',
    ],
    ['a Sid that is no text', { Sid: 1 }, 'Statement[1].Sid'],
    ['a condition that is no object', { Condition: [] }, 'Statement[1].Condition: must be an object'],
    [
      'an operator without keys',
      { Condition: { Bool: {} } },
      'Statement[1].Condition.Bool: names no condition key',
    ],
    ['a principal of another form', { Principal: 'alice' }, 'Statement[1].Principal: must be "*"'],
    ['no principal', { Principal: {} }, 'Statement[1].Principal: names no principal'],
    ['an empty list of principals', { Principal: { AWS: [] } }, 'Statement[1].Principal.AWS'],
    ['a federated principal', { Principal: { Federated: 'x' } }, '"Federated" is no kind of principal'],
    [
      'a group',
      { Principal: { AWS: 'arn:aws:iam::1:group/g' } },
      'Statement[1].Principal.AWS: "arn:aws:iam::1:group/g"',
    ],
    ['a principal with wildcards', { Principal: { AWS: 'arn:aws:iam::*:root' } }, 'is not an account'],
    ['a user with wildcards', { Principal: { AWS: 'arn:aws:iam::1:user/*' } }, 'is not "*", an account'],
    ['any service', { Principal: { Service: '*' } }, 'Statement[1].Principal.Service'],
  ])('with %s are refused', (_, statement, message) => {
    expect(refusedStatement(statement)).toContain(message);
  });

  test.each<[string, unknown]>([
    ['everyone', '*'],
    ['everyone at AWS', { AWS: '*' }],
    ['an account', { AWS: '111122223333' }],
    ['an owner id', { AWS: 'team-a' }],
    ['several', { AWS: ['arn:aws:iam::111122223333:root', 'arn:aws:iam::s3tenant1:user/a/b'] }],
    ['a session', { AWS: 'arn:aws:sts::111122223333:assumed-role/reader/x' }],
    ['a canonical user', { CanonicalUser: '79a59df900b949e55d96a1e698fbaced' }],
    ['a service', { Service: ['logging.s3.amazonaws.com'] }],
  ])('take %s as principal', (_, Principal) => {
    expect(refusedStatement({ Principal })).toBeUndefined();
  });

  test('Sids are unique, letters and digits for identities, any text for buckets', () => {
    const twice = write(fill('bucket', { Sid: 'a' }), fill('bucket', { Sid: 'a' }));
    expect(refused(twice, { kind: 'bucket' })).toContain('Statement[1].Sid: "a"');
    expect(refusedStatement({ Sid: 'Public Access!' })).toBeUndefined();
    expect(refusedStatement({ Sid: 'Public Access' }, { kind: 'identity' })).toContain('letters and digits');
    const empty = write(fill('bucket', { Sid: '' }), fill('bucket', { Sid: '' }));
    expect(refused(empty, { kind: 'bucket' })).toBeUndefined();
  });

  test('each kind has its elements', () => {
    expect(refusedStatement({ Principal: '*' }, { kind: 'identity' })).toContain(
      'Statement[1].Principal: has no place',
    );
    expect(refusedStatement({ Principal: '*' }, { kind: 'session' })).toContain('has no place');
    expect(refusedStatement({ Resource: '*' }, { kind: 'trust' })).toContain(
      'Statement[1].Resource: has no place',
    );
    expect(refusedStatement({ Effect: 'Deny', NotPrincipal: '*' }, { kind: 'trust' })).toContain(
      'has no place',
    );
    expect(
      refused(write({ Effect: 'Allow', Action: 's3:GetObject', Resource: '*' }), { kind: 'bucket' }),
    ).toContain('Statement[0]: needs Principal');
    expect(refused(write({ Effect: 'Allow', Action: 's3:GetObject' }), { kind: 'identity' })).toContain(
      'needs Resource or NotResource',
    );
    expect(refusedStatement({ Action: 'sqs:*' }, { kind: 'identity' })).toBeUndefined();
    expect(refusedStatement({ Action: 's3:GetObject' }, { kind: 'trust' })).toContain(
      'not an action of this kind',
    );
    expect(refusedStatement({}, { kind: 'trust' })).toBeUndefined();
  });

  test('a bucket policy is about its bucket, and its actions apply to its resources', () => {
    const options = { kind: 'bucket', bucket: 'photos' } as const;
    const of = (Resource: unknown, Action: unknown): string | undefined =>
      refusedStatement({ Resource, Action }, options);
    expect(of('arn:aws:s3:::photos/*', 's3:GetObject')).toBeUndefined();
    expect(of('arn:aws:s3:::*', 's3:ListBucket')).toBeUndefined();
    expect(of('*', ['s3:ListBucket', 's3:GetObject'])).toBeUndefined();
    expect(of('arn:aws:s3:::photo?', 's3:ListBucket')).toBeUndefined();
    expect(of('arn:aws:s3:::photos*', ['s3:ListBucket', 's3:GetObject'])).toBeUndefined();
    for (const other of [
      'arn:aws:s3:::other/*',
      'arn:aws:s3:::photos2',
      'arn:aws:s3:::phot/*',
      'arn:aws:sqs:::photos',
    ])
      expect(of(other, 's3:*')).toContain('is not in the bucket photos');
    expect(of('arn:aws:s3:::photos', 's3:GetObject')).toContain('"s3:GetObject" does not apply');
    expect(of('arn:aws:s3:::photos/*', ['s3:GetObject', 's3:ListBucket'])).toContain(
      '"s3:ListBucket" does not apply',
    );
    expect(
      of(['arn:aws:s3:::photos', 'arn:aws:s3:::photos/*'], ['s3:GetObject', 's3:ListBucket']),
    ).toBeUndefined();
  });

  test('an access point policy is about its access point', () => {
    const accessPoint = 'arn:aws:s3:default:111122223333:accesspoint/fotos';
    const options = { kind: 'access-point', accessPoint } as const;
    const text = (Resource: string): string => write(fill('access-point', { Resource }));
    expect(refused(text(`${accessPoint}/object/*`), options)).toBeUndefined();
    expect(refused(text(accessPoint), options)).toBeUndefined();
    expect(refused(text(`${accessPoint}x`), options)).toContain('is not of the access point');
  });
});

describe('conditions that the engine cannot evaluate are refused at parse', () => {
  const long = 'Statement[1].Condition';
  test.each<[Written, string]>([
    [condition('StringLik', 's3:prefix', 'x'), `${long}.StringLik: "StringLik" is no condition operator`],
    [condition('stringlike', 's3:prefix', 'x'), `${long}.stringlike: "stringlike" is no condition operator`],
    [condition('ForSomeValues:StringLike', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('ForAllValues:', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('IfExists', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('StringLikeIfExistsIfExists', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('constructor', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('__proto__x', 's3:prefix', 'x'), 'is no condition operator'],
    [condition('NullIfExists', 's3:prefix', 'true'), 'Null takes neither'],
    [condition('ForAnyValue:Null', 's3:prefix', 'true'), 'Null takes neither'],
    [condition('StringLike', 's3:prefiks', 'x'), `${long}.StringLike: "s3:prefiks" is no condition key`],
    [condition('StringLike', 'ec2:Region', 'x'), 'is no condition key'],
    [condition('StringLike', 's3:ExistingObjectTag', 'x'), 'is no condition key'],
    [condition('StringLike', 's3:ExistingObjectTag/', 'x'), 'is no condition key'],
    [condition('StringLike', 's3:prefix/x', 'x'), 'is no condition key'],
    [condition('StringLike', 's3:prefix', []), `${long}.StringLike.s3:prefix: must not be empty`],
    [condition('StringLike', 's3:prefix', null), 'must be a string, a number'],
    [condition('StringLike', 's3:prefix', { a: 1 }), 'must be a string, a number'],
    [condition('StringLike', 's3:prefix', [['a']]), 'must be a string, a number'],
    [condition('StringEquals', 'aws:TagKeys', 'x'), 'aws:TagKeys has several values: put ForAllValues:'],
    [
      condition('NumericLessThan', 's3:prefix', '1'),
      'NumericLessThan cannot compare s3:prefix, which holds text',
    ],
    [condition('IpAddress', 'aws:UserAgent', '::1'), 'IpAddress cannot compare aws:UserAgent'],
    [condition('ArnLike', 'aws:username', 'arn:aws:s3:::x'), 'ArnLike cannot compare aws:username'],
    [condition('Bool', 's3:prefix', 'true'), 'Bool cannot compare s3:prefix'],
    [
      condition('NumericLessThan', 's3:max-keys', 'x'),
      `${long}.NumericLessThan.s3:max-keys: "x" is not a number`,
    ],
    [condition('NumericLessThan', 's3:max-keys', '1e5'), '"1e5" is not a number'],
    [condition('DateLessThan', 'aws:CurrentTime', 'tomorrow'), '"tomorrow" is not a date'],
    [condition('DateLessThan', 'aws:CurrentTime', '2026-02-30'), 'is not a date'],
    [condition('Bool', 'aws:SecureTransport', 'yes'), '"yes" is not true or false'],
    [condition('Null', 's3:prefix', 'yes'), '"yes" is not true or false'],
    [condition('BinaryEquals', 's3:prefix', 'a'), '"a" is not base64'],
    [condition('IpAddress', 'aws:SourceIp', '10.0.0.0/33'), 'is not an address or range'],
    [condition('IpAddress', 'aws:SourceIp', '10.0.0'), 'is not an address or range'],
    [condition('IpAddress', 'aws:SourceIp', '010.0.0.0/8'), 'is not an address or range'],
    [condition('IpAddress', 'aws:SourceIp', '10.0.0.*'), 'is not an address or range'],
    [condition('ArnLike', 'aws:SourceArn', 'photos'), 'is not an ARN'],
    [condition('StringLike', 's3:prefix', `\${nobody}`), 'is no policy variable'],
    [
      { Condition: { Bool: { 'aws:SecureTransport': 'true', 'aws:securetransport': 'false' } } },
      'has "aws:securetransport" more than once',
    ],
  ])('%j', (statement, message) => {
    for (const Effect of ['Allow', 'Deny'])
      expect(refusedStatement({ ...statement, Effect })).toContain(message);
  });

  test('names of the prototype are no keys of anything', () => {
    const text = `{"Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*","Condition":{"StringLike":{"__proto__":"x"}}}}`;
    expect(refused(text, { kind: 'bucket' })).toContain('"__proto__" is no condition key');
    expect(refused(text.replace('"s3:*"', '"__proto__:x"'), { kind: 'bucket' })).toContain(
      'is not an action',
    );
  });
});

test('the operations of the table are actions that policies know', () => {
  // Only operators may call these; no policy applies to them.
  const ofOperators = new Set<string>(['ListAuditRecords', 'ListNotifyDeadLetters']);
  const asked = operationNames
    .filter((name) => !ofOperators.has(name))
    .map(describeOperation)
    .filter(({ authorization }) => authorization !== 'none');
  const actions = asked.flatMap(({ action, versionAction, also = {} }) =>
    [action, versionAction, ...Object.values(also).flat()].filter((each) => each !== undefined),
  );
  const unknown = actions.filter(
    (action) => /^s3:/.test(action) && !storageActions.has(action.toLowerCase()),
  );
  expect(unknown).toEqual([]);
});
