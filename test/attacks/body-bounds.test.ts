/** Attack group 15 of docs/security.md: no body holds the event loop for long, whatever it consists of. */
import { expect, test } from 'vitest';
import { parseXml } from '../../src/protocol/formats/xml-parse.ts';
import { deleteRequestLimits } from '../../src/protocol/schemas/object.ts';
import { timesLonger } from '../support/cpu-time.ts';
import { openGateway } from '../support/gateway.ts';

const MiB = 1024 ** 2;
/** As much of a filler as a body of DeleteObjects takes. */
const fill = (filler: string): string =>
  filler.repeat(Math.floor((4 * MiB - 300) / Buffer.byteLength(filler)));
const inKey = (text: string): string => `<Delete><Object><Key>${text}</Key></Object></Delete>`;
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

const tooLong: readonly (readonly [name: string, body: string])[] = [
  ['a key', inKey(fill('k'))],
  ['a key of references', inKey(fill('&#65;'))],
  ['a key of named references', inKey(fill('&amp;'))],
  ['a key in CDATA sections', inKey(fill(`<![CDATA[${'k'.repeat(2_000)}]]>`))],
  ['a key between comments', inKey(fill(`${'k'.repeat(2_000)}<!---->`))],
  ['blanks between elements', `<Delete><Object><Key>k</Key></Object>${fill(' ')}</Delete>`],
  ['blanks before an element', `<Delete>${fill(' ')}<Object/></Delete>`],
];
const allowed: readonly (readonly [name: string, body: string])[] = [
  ['a comment', inKey(`<!--${fill('c')}-->k`)],
  ['an attribute', `<Delete a="${fill('x')}"><Object><Key>k</Key></Object></Delete>`],
  [
    'keys of references',
    `<Delete>${'<Object><Key>&#233;&#x42;</Key></Object>'.replace('&#233;', '&#233;'.repeat(580)).repeat(1_000)}</Delete>`,
  ],
];

const references = bytesOf('&#65;'.repeat((4 * MiB) / 5));
const replaceReferences = (): string =>
  new TextDecoder()
    .decode(references)
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
/** The time in proportion to that in which a regular expression replaces as many references as a body has room for. */
const inProportion = (work: () => unknown): Promise<number> => timesLonger(work, replaceReferences);

// Usual figures are 0.01 to 0.02 for a refusal, and 0.14 for the slowest body that is allowed. Quadratic time would be thousands.
test.each(tooLong)('a text that is too long is refused while it is read: %s', async (_, body) => {
  const bytes = bytesOf(body);
  const parse = () => {
    expect(() => parseXml(bytes, deleteRequestLimits)).toThrow(/must have at most 16384 characters/);
  };
  expect(await inProportion(parse)).toBeLessThan(0.1);
});

test.each(allowed)(
  'the largest body is read in less time than a regular expression needs for its length: %s',
  async (_, body) => {
    const bytes = bytesOf(body);
    expect(await inProportion(() => parseXml(bytes, deleteRequestLimits))).toBeLessThan(1);
  },
);

test('a key of 1,025 bytes is refused beside others, one of 4 MiB with its request, before anything is deleted', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const keys = ['<Key>short</Key>', `<Key>${'k'.repeat(1_025)}</Key>`];
  const body = `<Delete>${keys.map((key) => `<Object>${key}</Object>`).join('')}</Delete>`;
  const some = await world.client.post('/bucket?delete', { body });
  expect([some.status, some.all('Code')]).toEqual([200, ['KeyTooLongError']]);
  const whole = await world.client.post('/bucket?delete', { body: inKey(fill('k')) });
  expect([whole.status, whole.code]).toEqual([400, 'MalformedXML']);
});
