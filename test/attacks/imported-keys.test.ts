/** Keys that an import of accounts may leave behind where it fails. */
import { expect, test } from 'vitest';
import { type MetadataStore, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';
import { clientOfCarol } from '../support/iam-users.ts';

test.each([
  [
    'the root of a suspended account',
    [{ kind: 'account', name: 'carol', status: 'Suspended' }, {}],
    'Active',
    'AccountProblem',
  ],
  ['a root, if it is inactive,', [{ kind: 'account', name: 'carol' }, {}], 'Inactive', 'InvalidAccessKeyId'],
  [
    'a user, if it is inactive,',
    [
      { kind: 'account', name: 'carol' },
      { kind: 'users', name: 'ann' },
    ],
    'Inactive',
    'InvalidAccessKeyId',
  ],
] as const)(
  'an import of accounts that fails after the key of %s was stored leaves no key that signs',
  async (_, [account, user], status, code) => {
    let isKeyStored = false;
    await using world = await openGateway({
      wrap: (context) => ({
        ...context,
        metadata: faulty(context.metadata, {
          commit: (async (...args: Parameters<MetadataStore['commit']>) => {
            if (isKeyStored) throw new StoreUnavailable('it fails after the key');
            const outcome = await context.metadata.commit(...args);
            isKeyStored ||= args[1].some((change) => 'put' in change && Object(change.put).kind === 'key');
            return outcome;
          }) as MetadataStore['commit'],
        }),
      }),
    });
    const key = { accessKey: 'AKIAOFCAROL', secretKey: 'a-secret-of-carol' };
    const keys = [{ ...key, status }];
    const records = 'kind' in user ? [account, { ...user, keys }] : [{ ...account, keys }];
    await operatorOf(world).ask('POST', '/accounts/carol/import', { records });
    expect(isKeyStored).toBe(true);
    expect((await clientOfCarol(world, key).get('/')).one('Code')).toBe(code);
  },
);
