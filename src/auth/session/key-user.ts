/**
 * Whether the caller may use a key of the key provider. The key's policy must allow its account, and IAM users and roles also need an
 * identity policy that allows the action on the key (public API "Protecting data with SSE-KMS").
 */

import { fail, type Refusal } from '../../base/errors.ts';
import type { KeyAction, KeyUser, UsedKey } from '../../domain/content/provider-key.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { KeyAccounts } from '../../ports/key-provider.ts';
import { type AuthorizationContext, type Caller, denialText, verdictOn } from '../authorize.ts';
import { listKeyNames } from '../facts.ts';
import type { Identity } from '../identity.ts';
import { principalOf } from '../principal.ts';

/**
 * The key's ARN in policies. It has the caller's account, because several accounts may share a key. Ids of some providers are ARNs
 * themselves.
 */
const keyArn = (region: string, account: string, keyId: string): string =>
  keyId.startsWith('arn:') ? keyId : `arn:aws:kms:${region}:${account}:key/${keyId}`;

/** The key as the caller named it. A name that is the id, in whatever account's ARN, is the id. */
function namedArn(region: string, account: string, { keyId, named }: Named): string {
  if (named === undefined) return 'the default key';
  if (named.startsWith('alias/')) return `arn:aws:kms:${region}:${account}:${named}`;
  return keyArn(region, account, named.endsWith(`:key/${keyId}`) ? keyId : named);
}
type Named = Pick<UsedKey, 'keyId' | 'named'>;

const hasAccount = (accounts: KeyAccounts, account: string): boolean =>
  accounts === 'every' || accounts.has(account);

/** The refusal for an account that the key's policy does not name, which learns nothing about the key. */
function refusalOfKey(
  { config }: Pick<AuthorizationContext, 'config'>,
  identity: NonNullable<Identity>,
  { action, key }: { readonly action: KeyAction; readonly key: Named },
): Refusal {
  const resource = namedArn(config.SVC_REGION, identity.owner, key);
  const verdict = { reason: 'other-account' } as const;
  const principal = principalOf(identity);
  return fail('AccessDenied', denialText({ principal, action, resource, verdict }));
}

/** @throws AccessDenied when the account of the bucket may not encrypt with the key */
export function assertAccountMayUse(
  ctx: Pick<AuthorizationContext, 'config'>,
  { identity, bucket }: Pick<Caller, 'identity'> & { readonly bucket: Pick<BucketRow, 'owner'> },
  key: UsedKey,
): void {
  if (hasAccount(key.encryptsFor, bucket.owner)) return;
  if (identity === undefined) throw fail('AccessDenied');
  throw refusalOfKey(ctx, identity, { action: 'kms:GenerateDataKey', key });
}

/** A request about an object: see `authorizeKey` of `request/request.ts`. */
interface ObjectCaller extends Caller {
  readonly bucket?: BucketRow | undefined;
  readonly authorizeKey?: ((names: readonly string[]) => Promise<void>) | undefined;
}

export const openKeyUser = (ctx: AuthorizationContext, caller: ObjectCaller): KeyUser => ({
  account: caller.identity?.owner ?? '',
  async assertMayUse(action, key) {
    const { identity } = caller;
    const { keyId, encryptsFor, decryptsFor, named } = key;
    const accounts = action === 'kms:Decrypt' ? decryptsFor : encryptsFor;
    if (identity === undefined) {
      if (accounts === 'reader') return;
      throw fail(
        'AccessDenied',
        `An anonymous caller is not authorized to perform: ${action} on resource: ${named === undefined ? 'the default key' : `key ${named}`}. Requests that use a key of the key provider must be signed.`,
      );
    }
    if (accounts !== 'reader' && !hasAccount(accounts, identity.owner))
      throw refusalOfKey(ctx, identity, { action, key });
    // Which key an alias stands for is known here only, after the request was allowed.
    if (action === 'kms:GenerateDataKey' && named !== undefined && caller.authorizeKey !== undefined) {
      const { bucket } = caller;
      const names = listKeyNames([named, keyId], { region: ctx.config.SVC_REGION, bucket, identity });
      await caller.authorizeKey(names);
    }
    if (identity.root) return;
    const resource = keyArn(ctx.config.SVC_REGION, identity.owner, keyId);
    // An access point leads to objects, and not to keys.
    const asker = { ...caller, accessPoint: undefined };
    const verdict = await verdictOn(ctx, asker, { action, bucketName: '', key: '', resource });
    if (verdict.allowed) return;
    throw fail('AccessDenied', denialText({ principal: principalOf(identity), action, resource, verdict }));
  },
});
