/** Any text as a policy is parsed or refused with MalformedPolicy. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type PolicyKind, parsePolicy } from '../../../src/auth/policy/document.ts';
import { evaluate } from '../../../src/auth/policy/evaluate.ts';
import { parseJson } from '../../../src/auth/policy/json.ts';
import { isPublicPolicy } from '../../../src/auth/policy/public-status.ts';
import { ask, fill, refusalOf } from './world.ts';

const kinds: readonly PolicyKind[] = ['identity', 'bucket', 'session', 'trust', 'access-point'];

/** The form of a reason: the place in the document and the error: `Statement[2].Action: "x" is not …`. */
const reason =
  /^(?:The policy|(?:Version|Id|Statement).*?:) .*\b(?:is|are|must|needs?|has|names?|cannot|takes?)\b.+\.$/s;

/** Parses the text as every kind of policy: evaluating it must not throw, a refusal must give its reason. True if any kind accepts it. */
function holdsFor(text: string): boolean {
  let parsed = 0;
  for (const kind of kinds) {
    const message = refusalOf(() => {
      const document = parsePolicy(text, { kind });
      evaluate(ask(), [{ name: kind, document }]);
      isPublicPolicy(document);
      parsed++;
    });
    if (message !== undefined) expect(message).toMatch(reason);
  }
  return parsed > 0;
}

test('arbitrary text and JSON', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => void holdsFor(text)));
  fc.assert(fc.property(fc.json(), (text) => void holdsFor(text)));
});

test('documents of the right words in the wrong places', () => {
  const words = fc.constantFrom(
    ...'Version Id Statement Sid Effect Principal NotPrincipal Action NotAction Resource NotResource Condition'.split(
      ' ',
    ),
    ...'StringLike ForAllValues:StringLike Bool Null IpAddress ArnLike BinaryEquals DateLessThan AWS'.split(
      ' ',
    ),
    ...'s3:prefix aws:SourceIp aws:CurrentTime aws:SourceArn aws:TagKeys __proto__ constructor'.split(' '),
  );
  const leaves = fc.oneof(
    fc.constantFrom(
      '*',
      'Allow',
      'Deny',
      '2012-10-17',
      's3:*',
      'arn:aws:s3:::x/*',
      '${',
      `\${aws:username}`,
      '::',
      '/',
    ),
    fc.string({ maxLength: 6 }),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      leaves,
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(words, tie('tree'), { maxKeys: 5 }),
    ),
  }));
  fc.assert(
    fc.property(tree, (value) => void holdsFor(JSON.stringify(value))),
    { numRuns: 500 },
  );

  // Replace one element of a valid statement by any value.
  const elements = fc.constantFrom(...'Sid Effect Principal Action NotAction Resource Condition'.split(' '));
  let parsed = 0;
  fc.assert(
    fc.property(elements, tree, fc.constantFrom(...kinds), (name, value, kind) => {
      const statement = { ...fill(kind, {}), [name]: value };
      if (holdsFor(JSON.stringify({ Version: '2012-10-17', Statement: [statement] }))) parsed++;
    }),
    { numRuns: 800 },
  );
  // About 30 of them parse.
  expect(parsed).toBeGreaterThan(5);
});

test('the JSON reader reads what JSON.parse reads, but for repeated keys', () => {
  const plain = (value: unknown): unknown => {
    if (value instanceof Map) return Object.fromEntries([...value].map(([key, each]) => [key, plain(each)]));
    return Array.isArray(value) ? value.map(plain) : value;
  };
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => {
      expect(plain(parseJson(text))).toEqual(JSON.parse(text));
    }),
  );
  fc.assert(
    fc.property(fc.json({ maxDepth: 3 }), fc.nat(), fc.string({ maxLength: 1 }), (text, at, letter) => {
      const broken = text.slice(0, at % text.length) + letter + text.slice((at % text.length) + 1);
      let isJson = true;
      try {
        JSON.parse(broken);
      } catch {
        isJson = false;
      }
      const refused = refusalOf(() => parseJson(broken));
      if (!isJson) expect(refused).toBeDefined();
      else if (refused !== undefined) expect(refused).toContain('more than once');
    }),
  );
});
