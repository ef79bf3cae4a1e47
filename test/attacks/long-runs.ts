/** Long runs of one short text, and every place of a request that accepts a text. */
import { alice } from '../support/gateway.ts';
import type { Ask, Client } from '../support/gateway-client.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signPolicyV2 } from '../support/post-form.ts';
import { xmlBodies } from '../support/xml-bodies.ts';
import { headerNames, queryNames } from './random-words.ts';

/** The texts that runs repeat. Each has made some parser slow: blanks, digits, escapes, separators, brackets, globs. */
const fillers: readonly string[] = [
  ' ', '\t', '0', 'a', '%41', '%', '&#65;', '&amp;', '&', '*', '*a', '?', '/', '/../', ',', ', ', ';', ':', '=', 'a=b&', '-', '+', '.', '"',
  '\\', "'", '[', '{', '(', '<a>', '</', '<!--', '$', '${', '@', '~', '_', 'é', 'A1-',
]; // biome-ignore format: a list of texts

/** The run alone, and between two letters: a pattern backtracks when the text behind the run does not match. */
const wrappings: readonly ((run: string) => string)[] = [(run) => run, (run) => `x${run}x`];

/** A run of each filler; the wrappings alternate. */
export function* runs(bytes: number): Generator<readonly [name: string, text: string]> {
  for (const [at, filler] of fillers.entries()) {
    const run = filler.repeat(Math.ceil(bytes / Buffer.byteLength(filler)));
    yield [JSON.stringify(filler), (wrappings[at % wrappings.length] ?? String)(run)];
  }
}

/** A place of a request that accepts a text, and how to send the request. */
export interface Place {
  readonly name: string;
  readonly send: (client: Client, text: string) => Promise<unknown>;
}

/** Headers with the beginning that their parser requires. */
const begun: readonly (readonly [header: string, beginning: string])[] = [
  ['range', 'bytes='],
  ['range', 'bytes=0-'],
  ['range', 'bytes=0'],
  ['*-copy-source', '/bucket/key?versionId='],
  ['*-copy-source', 'arn:aws:s3:us-east-1:alice-account:accesspoint/'],
  ['*-copy-source-range', 'bytes=0-'],
  ['*-tagging', 'key='],
  ['*-grant-read', 'id="alice-account'],
  ['*-grant-read', 'uri='],
  ['*-object-lock-retain-until-date', '2030-01-01T00:00:00.'],
  ['if-modified-since', 'Wed, 21 Oct 2026 07:28:00 '],
  ['if-match', '"etag", '],
  ['content-type', 'multipart/form-data; boundary='],
  ['*-website-redirect-location', 'https://'],
  ['x-forwarded-for', '10.0.0.1, '],
  ['*-server-side-encryption-context', 'eyJhIjoi'],
];

const isHeaderText = (text: string): boolean => /^[\t\x20-\x7e\xa0-\xff]*$/.test(text);

/** Signed requests whose header or query parameter holds the text. */
const inHeader = (name: string, method: string, path: string): Place => ({
  name: `${method} ${path} with ${name}`,
  send: async (client, text) => {
    const body = method === 'PUT' ? { body: 'content' } : {};
    if (isHeaderText(text)) await client.send(method, path, { headers: { [name]: text }, ...body });
  },
});
const inQuery = (name: string, path: string): Place => ({
  name: `GET ${path} with the parameter ${name}`,
  send: (client, text) => client.get(path, { query: [[name, text]] }),
});

/** Places in the request line, where the text is sent without the client's encoding. */
const inTarget = (name: string, target: (text: string) => string): Place => ({
  name,
  send: async (client, text) => {
    const line = /[^\x21-\x7e]/.test(text) ? encodeURI(text) : text;
    await client.sendRaw({
      method: 'GET',
      target: target(line),
      headers: [['host', 'localhost']],
      body: undefined,
    });
  },
});

/** Headers that are read before the request is authenticated. */
const unsigned = (name: string): Place => ({
  name: `${name} of an unsigned request`,
  send: async (client, text) => {
    const headers: [string, string][] = [
      ['host', 'localhost'],
      ['x-amz-date', '20260101T000000Z'],
    ];
    if (!isHeaderText(text)) return;
    const others = headers.filter(([known]) => known !== name);
    await client.sendRaw({
      method: 'GET',
      target: '/bucket/key',
      headers: [...others, [name, text]],
      body: undefined,
    });
  },
});

const credential = `${alice.accessKey}/20260101/us-east-1/s3/aws4_request`;
const authorization = (part: (text: string) => string, name: string): Place => ({
  name: `Authorization with a long ${name}`,
  send: (client, text) => unsigned('authorization').send(client, `AWS4-HMAC-SHA256 ${part(text)}`),
});

export const headerPlaces: readonly Place[] = [
  ...begun.flatMap(([name, beginning]) =>
    ['GET', 'PUT'].map((method) => {
      const place = inHeader(name, method, '/bucket/key');
      return {
        name: `${place.name}: ${beginning}`,
        send: (client: Client, text: string) => place.send(client, beginning + text),
      };
    }),
  ),
  ...headerNames.flatMap((name) => [
    inHeader(name, 'GET', '/bucket/key'),
    inHeader(name, 'PUT', '/bucket/other'),
  ]),
  ...[
    'authorization',
    'host',
    'x-amz-date',
    'x-amz-content-sha256',
    'x-forwarded-proto',
    'date',
    'expect',
  ].map(unsigned),
  authorization((text) => text, 'value'),
  authorization((text) => `Credential=${text}, SignedHeaders=host, Signature=aa`, 'credential'),
  authorization((text) => `Credential=${credential}, SignedHeaders=${text}, Signature=aa`, 'header list'),
  authorization((text) => `Credential=${credential}, SignedHeaders=host, Signature=${text}`, 'signature'),
];

const signing = ['Algorithm', 'Credential', 'Date', 'Expires', 'SignedHeaders', 'Signature'];

export const targetPlaces: readonly Place[] = [
  ...queryNames.map((name) => inQuery(name, '/bucket')),
  ...['versionId', 'partNumber', 'uploadId', 'response-content-type'].map((name) =>
    inQuery(name, '/bucket/key'),
  ),
  ...signing.map((name) => inTarget(`X-Amz-${name}`, (text) => `/bucket/key?X-Amz-${name}=${text}`)),
  ...['AWSAccessKeyId', 'Signature', 'Expires'].map((name) =>
    inTarget(name, (text) => `/bucket/key?${name}=${text}`),
  ),
  inTarget('a path', (text) => `/${text}`),
  inTarget('a key', (text) => `/bucket/${text}`),
  inTarget('an admin path', (text) => `/admin/v1/${text}`),
  inTarget('an area', (text) => `/console/${text}`),
  inTarget('a query', (text) => `/bucket?${text}`),
  inTarget('a name of a query', (text) => `/bucket?${text}=a&b=c`),
];

const form = (body: string, more: Ask['headers'] = {}): Ask => ({
  body,
  payload: 'missing',
  headers: { 'content-type': 'application/x-www-form-urlencoded', ...more },
});
const boundary = 'mark';
const multipartForm = (client: Client, body: string): Promise<unknown> =>
  client.post('/bucket', {
    body,
    payload: 'missing',
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  });
const part = (disposition: string, value: string): string =>
  `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${value}\r\n`;
const policyWith = (statement: object): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: 'arn:aws:s3:::bucket/*',
        ...statement,
      },
    ],
  });
const policyPlace = (name: string, document: (text: string) => string): Place => ({
  name: `a bucket policy with ${name}`,
  send: (client, text) => client.put('/bucket?policy', { body: document(text) }),
});

/** Every XML body with the text in place of the text of its first leaf, in front of its root, and between two elements. */
const xmlPlaces: readonly Place[] = xmlBodies.flatMap(({ root, on, document }) => {
  const [method = '', path = ''] = on.split(' ');
  const place = (name: string, body: (text: string) => string): Place => ({
    name: `${root} with ${name}`,
    send: (client, text) => client.send(method, path, { body: body(text) }),
  });
  return [
    place('a long leaf', (text) => document.replace(/>[^<>]+<\//, () => `>${text}</`)),
    place('a long text between elements', (text) => document.replace(/>\s*<(?!\/)/, () => `>${text}<`)),
    place('a long beginning', (text) => text + document),
    place('a long attribute', (text) => document.replace(/^(<[\w:]+)/, (tag) => `${tag} a="${text}"`)),
  ];
});

/** A form whose policy contains the text. Alice signed the policy, because an unsigned one is not parsed. */
const policyForm = (name: string, policy: (text: string) => string): Place => ({
  name: `a form whose policy has ${name}`,
  send: (client, text) => {
    const parts = [
      ...fieldsOf({ key: 'k', ...signPolicyV2(alice, base64(policy(text))) }),
      fileOf('content'),
    ];
    return client.post('/bucket', { body: encodeForm(parts), payload: 'missing', headers: multipart() });
  },
});
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const conditions = (condition: unknown): string =>
  JSON.stringify({ expiration: '2100-01-01T00:00:00Z', conditions: [condition] });
/** Shortens the text, because all fields of a form together have at most 20 KiB. */
const fitting = (text: string): string => text.slice(0, 12_000);

const policyForms: readonly Place[] = [
  policyForm('a long document', (text) => fitting(text)),
  policyForm('long blanks', (text) => `{ ${fitting(text)} }`),
  policyForm('a long date', (text) => JSON.stringify({ expiration: fitting(text), conditions: [] })),
  policyForm('a long field', (text) => conditions({ [fitting(text)]: 'a' })),
  policyForm('a long value', (text) => conditions(['starts-with', '$key', fitting(text)])),
  policyForm('a long operator', (text) => conditions([fitting(text), '$key', 'a'])),
];

const adminPlace = (name: string, path: string, body: (text: string) => string): Place => ({
  name: `${path} with ${name}`,
  send: (client, text) => client.send('PUT', `/admin/v1${path}`, { body: body(text) }),
});

/** A cookie of a log-in is looked for before the caller is known. */
const cookie = (name: string, beginning: string): Place => ({
  name,
  send: async (client, text) => {
    if (!isHeaderText(text)) return;
    await client.sendRaw({
      method: 'GET',
      target: '/admin/v1/session',
      headers: [
        ['host', 'localhost'],
        ['cookie', beginning + text],
      ],
      body: undefined,
    });
  },
});

/** The operator API: headers, cookies and queries, and in bodies the JSON itself, names and texts. */
export const adminPlaces: readonly Place[] = [
  cookie('a cookie', 'sluice-login='),
  cookie('cookies', 'a=b; '),
  ...['idempotency-key', 'if-match', 'if-none-match', 'traceparent'].map((name) =>
    inHeader(name, 'PUT', '/admin/v1/buckets/bucket/quota'),
  ),
  inHeader('idempotency-key', 'POST', '/admin/v1/why'),
  inQuery('identity', '/admin/v1/audit'),
  inQuery('after', '/admin/v1/audit'),
  inQuery('status', '/admin/v1/traces'),
  inTarget('a name in a path', (text) => `/admin/v1/buckets/${text}/quota`),
  adminPlace('a long body', '/clusters/default/weight', (text) => text),
  adminPlace('long blanks', '/clusters/default/weight', (text) => `{ ${text} "weight": 1}`),
  adminPlace('a long number', '/clusters/default/weight', (text) => `{"weight": ${text}}`),
  adminPlace('a long name', '/clusters/default/weight', (text) => JSON.stringify({ [text]: 1 })),
  adminPlace('a long text', '/clusters/default/weight', (text) => JSON.stringify({ weight: text })),
  adminPlace('a long member', '/buckets/bucket/placement', (text) =>
    JSON.stringify({ placement: { [text]: 1 } }),
  ),
];

export const bodyPlaces: readonly Place[] = [
  ...policyForms,
  ...xmlPlaces,
  policyPlace('a long document', (text) => text),
  policyPlace('a long string', (text) => policyWith({ Sid: text })),
  policyPlace('a long resource', (text) => policyWith({ Resource: `arn:aws:s3:::bucket/${text}` })),
  policyPlace('a long action', (text) => policyWith({ Action: text })),
  policyPlace('a long principal', (text) => policyWith({ Principal: { AWS: text } })),
  policyPlace('a long condition', (text) =>
    policyWith({
      Condition: { StringLike: { 'aws:UserAgent': text }, NumericEquals: { 's3:max-keys': text } },
    }),
  ),
  policyPlace('a long date', (text) =>
    policyWith({ Condition: { DateLessThan: { 'aws:CurrentTime': text } } }),
  ),
  policyPlace('a long range', (text) => policyWith({ Condition: { IpAddress: { 'aws:SourceIp': text } } })),
  policyPlace('a long number', (text) => `{"Version": ${text}}`),
  policyPlace('long blanks', (text) => `{ ${text} }`),
  { name: 'a form', send: (client, text) => client.post('/', form(text)) },
  { name: 'a form with a long action', send: (client, text) => client.post('/', form(`Action=${text}`)) },
  {
    name: 'a form with a long parameter',
    send: (client, text) => client.post('/', form(`Action=CreateUser&Version=2010-05-08&UserName=${text}`)),
  },
  {
    name: 'a form with a long name',
    send: (client, text) => client.post('/', form(`Action=CreateUser&Version=2010-05-08&${text}=a`)),
  },
  { name: 'a multipart form', send: (client, text) => multipartForm(client, text) },
  {
    name: 'a multipart form with a long header',
    send: (client, text) => multipartForm(client, part(text, 'value')),
  },
  {
    name: 'a multipart form with a long parameter',
    send: (client, text) => multipartForm(client, part(`name=${text}`, 'value')),
  },
  {
    name: 'a multipart form with a long field',
    send: (client, text) => multipartForm(client, part('name="policy"', text)),
  },
  {
    name: 'a chunk header',
    send: (client, text) =>
      client.put('/bucket/chunks', {
        body: 'content',
        payload: 'streaming',
        tamper: { body: () => Buffer.from(`${text}\r\ncontent\r\n0\r\n\r\n`) },
      }),
  },
  {
    name: 'a chunk extension',
    send: (client, text) =>
      client.put('/bucket/chunks', {
        body: 'content',
        payload: 'streaming',
        tamper: { body: () => Buffer.from(`7;chunk-signature=${text}\r\ncontent\r\n0\r\n\r\n`) },
      }),
  },
  {
    name: 'a trailer',
    send: (client, text) =>
      client.put('/bucket/chunks', {
        body: 'content',
        payload: 'unsigned-trailer',
        trailers: { 'x-amz-checksum-crc32': text.replace(/[^\x20-\x7e]/g, '') },
      }),
  },
];
