/** Each operation of the operator API that changes a configuration says which fields its audit row records; none of them is a secret. */
import { expect, test } from 'vitest';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import { isSecretField } from '../support/secret-fields.ts';

test('no operation records a field whose name is that of a secret', () => {
  const wrong = adminOperationNames.flatMap((name) => {
    const { records = [], digests = [] } = describeAdminOperation(name);
    return [...records, ...digests].filter(isSecretField).map((field) => `${name}.${field}`);
  });
  expect(wrong).toEqual([]);
});

/** Operations that change no configuration: they show secrets, begin or end work, or the log-ins of operators. */
const withoutFields: readonly RegExp[] = [
  /^(?:Export|Start|Cancel|Run|Check|Retry|Redrive|Discard|ForceEmpty|Reshard|Abort|Get|Repair|Rewrap|Scrub|Fsck|Test)/,
  /^(?:LogIn|LogOut|RevokeLogins?|RevokeOwnLogin|CreateSessionCredentials)$/,
];

test('every operation that changes a configuration records which fields', () => {
  const without = adminOperationNames.filter((name) => {
    const { audited, records = [], digests = [] } = describeAdminOperation(name);
    return audited && records.length + digests.length === 0;
  });
  expect(without.filter((name) => !withoutFields.some((pattern) => pattern.test(name)))).toEqual([]);
});
