/** The estimated memory of a compiled policy is never less than its real memory. */
import { expect, test } from 'vitest';
import { type PolicyDocument, parsePolicy } from '../../../src/auth/policy/document.ts';
import { evaluate } from '../../../src/auth/policy/evaluate.ts';
import { anonymous } from '../../../src/auth/policy/request.ts';
import { compiledSizeMax } from '../../../src/auth/policy/variables.ts';
import { heavyPolicies } from '../../support/heavy-policies.ts';
import { heldBytes } from '../../support/held-bytes.ts';

const copies = 8;

/** Evaluates the policy once with long values, so that everything that is compiled lazily exists. */
function ask(document: PolicyDocument): void {
  const value = 'zq'.repeat(1_000);
  const request = {
    principal: anonymous,
    action: 's3:GetObject',
    resource: `arn:aws:s3:::bucket/${'zq'.repeat(400)}`,
    context: { lookup: (key: string) => (key === 'aws:UserAgent' ? value : 'r'.repeat(250)) },
  };
  evaluate(request, [{ name: 'bucket policy', document }]);
}

test.each(Object.entries(heavyPolicies(20 * 1024)))('%s hold no more than was estimated', (_, text) => {
  ask(parsePolicy(text, { kind: 'bucket', isStored: true }));
  const before = heldBytes();
  const documents = Array.from({ length: copies }, () => {
    const document = parsePolicy(text, { kind: 'bucket', isStored: true });
    ask(document);
    return document;
  });
  const held = (heldBytes() - before) / copies;
  const estimated = documents[0]?.size.bytes ?? 0;
  expect(held, `${Math.round(held)} bytes held, ${estimated} estimated`).toBeLessThan(estimated);
});

const statement = {
  Effect: 'Allow',
  Principal: '*',
  Action: 's3:GetObject',
  Resource: 'arn:aws:s3:::bucket/*',
};
const withAgents = (agents: readonly string[]): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ ...statement, Condition: { StringLike: { 'aws:UserAgent': agents } } }],
  });

test('a policy may have so many patterns that search, and no more; a stored one is read all the same', () => {
  const agents = (count: number) => Array.from({ length: count }, (_, index) => `*${index}*`);
  const most = compiledSizeMax.patterns;
  expect(parsePolicy(withAgents(agents(most)), { kind: 'bucket' }).size.patterns).toBe(most);
  const more = withAgents(agents(most + 1));
  expect(() => parsePolicy(more, { kind: 'bucket' })).toThrow(
    expect.objectContaining({ code: 'MalformedPolicy' }),
  );
  expect(parsePolicy(more, { kind: 'bucket', isStored: true }).size.patterns).toBe(most + 1);
});

test('what begins or ends with a wildcard alone is no pattern that searches', () => {
  const agents = Array.from({ length: 500 }, (_, index) => (index % 2 === 0 ? `${index}*` : `*${index}`));
  expect(parsePolicy(withAgents(agents), { kind: 'bucket' }).size.patterns).toBe(0);
});
