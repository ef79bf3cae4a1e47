/**
 * Version-2 URLs whose query has response overrides beside sub-resources. A slow implementation of the public rule signs them
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html, "Constructing the CanonicalizedResource
 * Element"): the sub-resources and the overrides together, sorted by name, separated by `&`, a value only where there
 * is one, and not encoded. It shares no code with `src` or the other tests.
 */
import { createHmac, randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { type Dice, openDice } from '../support/dice.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';

type Pair = readonly [name: string, value: string];

/** The names that the public rule lists, which are read by GET. */
const listed: ReadonlySet<string> = new Set([
  ...['acl', 'lifecycle', 'location', 'logging', 'notification', 'partNumber', 'policy', 'requestPayment'],
  ...['uploadId', 'uploads', 'versionId', 'versioning', 'versions', 'website', 'cors', 'tagging'],
  ...['response-content-type', 'response-content-language', 'response-expires', 'response-cache-control'],
  ...['response-content-disposition', 'response-content-encoding'],
]);

function canonicalResource(path: string, pairs: readonly Pair[]): string {
  const signed = pairs.filter(([name]) => listed.has(name));
  const sorted: Pair[] = [];
  for (const pair of signed) {
    const at = sorted.findIndex(([name]) => name > pair[0]);
    sorted.splice(at < 0 ? sorted.length : at, 0, pair);
  }
  const written = sorted.map(([name, value]) => (value === '' ? name : `${name}=${value}`));
  return written.length === 0 ? path : `${path}?${written.join('&')}`;
}

function sign(path: string, pairs: readonly Pair[]): readonly Pair[] {
  const expires = String(Math.floor(Date.now() / 1000) + 900);
  const text = `GET\n\n\n${expires}\n${canonicalResource(path, pairs)}`;
  const signature = createHmac('sha1', alice.secretKey).update(text, 'utf8').digest('base64');
  return [
    ['AWSAccessKeyId', alice.accessKey],
    ['Signature', signature],
    ['Expires', expires],
  ];
}

const encode = (pairs: readonly Pair[]): string =>
  pairs.map(([name, value]) => (value === '' ? name : `${name}=${encodeURIComponent(value)}`)).join('&');

const get = ({ client }: GatewayWorld, path: string, pairs: readonly Pair[]) =>
  client.sendRaw({
    method: 'GET',
    target: pairs.length === 0 ? path : `${path}?${encode(pairs)}`,
    headers: [['host', 'localhost']],
    body: new Uint8Array(),
  } as Parameters<typeof client.sendRaw>[0]);

const overrides: Readonly<Record<string, readonly string[]>> = {
  'response-content-type': ['text/html; charset=utf-8', 'a/b'],
  'response-content-language': ['de, en', 'é'],
  'response-expires': ['Thu, 01 Dec 1994 16:00:00 GMT'],
  'response-cache-control': ['no-cache', 'max-age=1, a="b=c"'],
  'response-content-disposition': ['attachment; filename="a b+c%20.txt"', 'inline'],
  'response-content-encoding': ['gzip'],
};
const places: readonly (readonly [path: string, resources: readonly string[]])[] = [
  ['/bucket/key', ['', 'acl', 'tagging', 'versionId', 'acl versionId', 'tagging versionId', 'partNumber']],
  ['/bucket', ['', 'acl', 'cors', 'lifecycle', 'location', 'logging', 'notification', 'policy']],
  ['/bucket', ['requestPayment', 'tagging', 'versioning', 'versions', 'website', 'uploads']],
];

const shuffle = <T>(dice: Dice, items: readonly T[]): readonly T[] =>
  items
    .map((item) => [dice.roll(2 ** 30), item] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, item]) => item);

test('a version-2 URL covers its response overrides beside every sub-resource, which they do not change', async () => {
  const seed = Number(process.env['MATRIX_SEED'] ?? randomInt(2 ** 31));
  const dice = openDice(seed);
  await using world = await openGateway();
  await world.client.put('/bucket', {});
  await world.client.put('/bucket?versioning', {
    body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
  });
  const put = await world.client.put('/bucket/key', { body: 'content', headers: { '*-tagging': 'a=b' } });
  const given: Readonly<Record<string, string>> = {
    versionId: put.header('*-version-id') ?? '',
    partNumber: '1',
  };
  const timeless = (text: string): string =>
    text.replaceAll(/<(RequestId|HostId)>.*?<\/\1>|<NextVersionIdMarker>.*?</g, '');
  for (let round = 0; round < 300; round += 1) {
    const [path, choices] = dice.pick(places);
    const resources = dice.pick(choices).split(' ').filter(Boolean);
    const own = resources.map((name): Pair => [name, given[name] ?? '']);
    const chosen = Object.entries(overrides)
      .filter(() => dice.chance(3))
      .map(([name, values]): Pair => [name, dice.pick(values)]);
    const free: readonly Pair[] = dice.chance(3) ? [['x-id', 'Get']] : [];
    const pairs = [...own, ...chosen];
    const about = `MATRIX_SEED=${seed}, round ${round}: ${path}?${encode(pairs)}`;
    const signed = await get(world, path, shuffle(dice, [...pairs, ...free, ...sign(path, pairs)]));
    const plain = await world.client.get(own.length === 0 ? path : `${path}?${encode(own)}`);
    const isObject =
      path === '/bucket/key' && !resources.some((name) => name === 'acl' || name === 'tagging');
    expect([about, signed.status], signed.text).toEqual([about, plain.status]);
    expect([about, timeless(signed.text)]).toEqual([about, timeless(plain.text)]);
    for (const [name, value] of chosen) {
      const header = name.slice('response-'.length);
      // A header has ASCII only.
      const expected = isObject
        ? value.replaceAll(/[^\x20-\x7e]/g, encodeURIComponent)
        : plain.header(header);
      expect([about, header, signed.header(header)]).toEqual([about, header, expected]);
    }
    // What is changed, left out or added after the signature is not covered by it.
    const [at, other] = [dice.roll(pairs.length + 1), dice.pick(Object.keys(overrides))];
    const altered = pairs.flatMap((pair, index): Pair[] =>
      index !== at ? [pair] : dice.chance(2) ? [] : [[pair[0], `${pair[1]}x`]],
    );
    const tampered =
      at < pairs.length || chosen.some(([name]) => name === other)
        ? altered
        : [...pairs, [other, 'x'] as Pair];
    if (encode(tampered) === encode(pairs)) continue;
    const refused = await get(world, path, [...tampered, ...sign(path, pairs)]);
    expect([about, encode(tampered), refused.status, refused.code]).toEqual([
      about,
      encode(tampered),
      403,
      'SignatureDoesNotMatch',
    ]);
  }
});
