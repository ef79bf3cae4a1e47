/** The policy of an access point, as the storage protocol and the operator API store and describe it. */
import { refuseBarePrincipals } from '../../auth/bucket-policy.ts';
import { type PolicyDocument, parsePolicy } from '../../auth/policy/document.ts';
import { isPublicPolicy } from '../../auth/policy/public-status.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { accessPointArn, openAccessPoint, setAccessPointPolicy } from '../../domain/access/access-points.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import type { Recorder } from '../../domain/common/recorder.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { publicAccessBlock } from '../../domain/configurations/families.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';

interface NewPolicy {
  readonly account: string;
  readonly name: string;
  /** Of the access point that the caller is authorized for; absent where its account and name decide. */
  readonly alias?: string | undefined;
  readonly text: string;
  readonly record?: Recorder | undefined;
}

/** @throws NoSuchAccessPoint, MalformedPolicy, AccessDenied for a public policy that a public access block refuses */
export async function storeAccessPointPolicy(
  ctx: Context,
  { account, name, alias, text, record }: NewPolicy,
): Promise<void> {
  const { row } = await openAccessPoint(ctx, account, name);
  const document = parsePolicy(text, { kind: 'access-point', accessPoint: accessPointArn(row) });
  await refuseBarePrincipals(ctx, account, document);
  const isPublic = isPublicPolicy(document);
  await setAccessPointPolicy(
    ctx,
    // The access point may have been deleted and created again for another bucket; the alias tells them apart.
    { account, name, alias: alias ?? row.alias, record },
    {
      text,
      async assertAllowed(now) {
        record?.change?.(now.policy && { document: now.policy.text }, { document: text });
        await assertMayBe(ctx, now, { isPublic });
      },
    },
  );
}

/** Called with the access point that the commit replaces. The block of a bucket applies to access points of its own account. */
async function assertMayBe(
  ctx: Context,
  now: AccessPointRow,
  { isPublic }: { readonly isPublic: boolean },
): Promise<void> {
  if (!isPublic) return;
  if (now.block.BlockPublicPolicy) throw fail('AccessDenied', { blockedBy: 'BlockPublicPolicy' });
  const bucket = await lookUpBucket(ctx, now.bucket);
  if (bucket === undefined || bucket.owner !== now.account) return;
  const block = await readDocument(ctx, bucket, publicAccessBlock);
  if (block?.BlockPublicPolicy === true) throw fail('AccessDenied', { blockedBy: 'BlockPublicPolicy' });
}

/** The policy of an access point, parsed; undefined where it has none. */
export const readAccessPointPolicy = ({ policy }: AccessPointRow): PolicyDocument | undefined =>
  policy === undefined ? undefined : parsePolicy(policy.text, { kind: 'access-point', isStored: true });
