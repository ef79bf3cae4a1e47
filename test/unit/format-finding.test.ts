/** Lines about objects whose keys tenants chose. */
import { expect, test } from 'vitest';
import { formatFinding } from '../../src/runtime/cli/cli-fsck.ts';

test('a finding of fsck is one line without control characters, whatever the key contains', () => {
  const key = 'a\u001b]0;title\u0007\nmissing  key=forged\u009b2J\u202e';
  const line = formatFinding({
    kind: 'missing',
    detail: 'bytes are missing',
    bucket: 'bucket',
    key,
  } as never);
  expect(line).toContain('key=a\ufffd]0;title\ufffd\ufffdmissing  key=forged\ufffd2J\ufffd');
  expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u);
});
