/** The policy of an access point: Put, Get, Delete, and whether it is public. */
import { refuseBarePrincipals } from '../../../auth/authorization/bare-principals.ts';
import { parsePolicy } from '../../../auth/policy/document/document.ts';
import { isPublicPolicy } from '../../../auth/policy/public-status.ts';
import type { Context } from '../../../context.ts';
import {
  accessPointArn,
  openAccessPoint,
  setAccessPointPolicy,
} from '../../../domain/access/access-points.ts';
import { lookUpBucket } from '../../../domain/buckets/buckets.ts';
import { readDocument } from '../../../domain/configurations/documents.ts';
import { publicAccessBlock } from '../../../domain/configurations/families.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AccessPointRow } from '../../../metadata/records/access-points.ts';
import {
  getAccessPointPolicyResult,
  getAccessPointPolicyStatusResult,
} from '../../../protocol/schemas/access/access-points.ts';
import { action } from '../../iam/action.ts';
import type { ActionRequest } from '../../iam/action-request.ts';
import { named, policyText, readAccount } from './fields.ts';
import { formatResource, readFacts } from './resource.ts';

interface Named {
  readonly AccountId: string | undefined;
  readonly Name: string;
}

export const PutAccessPointPolicy = action(
  'PutAccessPointPolicy',
  { ...named, Policy: policyText },
  {
    resource: formatResource,
    facts: readFacts,
    async run(ctx, request, given) {
      const account = readAccount(request, given);
      const { Name: name, Policy: text } = given;
      const { row } = await openAccessPoint(ctx, account, name);
      const accessPoint = accessPointArn(row);
      const document = parsePolicy(text, { kind: 'access-point', accessPoint });
      await refuseBarePrincipals(ctx, account, document);
      const isPublic = isPublicPolicy(document);
      await setAccessPointPolicy(
        ctx,
        { account, name, record: request.record },
        { text, assertAllowed: (now) => assertMayBe(ctx, now, { isPublic, judged: row }) },
      );
    },
  },
);

/** Called with the access point that the commit replaces. The block of a bucket applies to access points of its own account. */
async function assertMayBe(
  ctx: Context,
  now: AccessPointRow,
  { isPublic, judged }: { readonly isPublic: boolean; readonly judged: AccessPointRow },
): Promise<void> {
  // Deleted and made again meanwhile, perhaps for another bucket.
  if (now.alias !== judged.alias)
    throw fail('NoSuchAccessPoint', { elements: { AccessPointName: judged.name } });
  if (!isPublic) return;
  if (now.block.BlockPublicPolicy) throw fail('AccessDenied', { blockedBy: 'BlockPublicPolicy' });
  const bucket = await lookUpBucket(ctx, now.bucket);
  if (bucket === undefined || bucket.owner !== now.account) return;
  const block = await readDocument(ctx, bucket, publicAccessBlock);
  if (block?.BlockPublicPolicy === true) throw fail('AccessDenied', { blockedBy: 'BlockPublicPolicy' });
}

async function readAccessPointPolicy(ctx: Context, request: ActionRequest, given: Named): Promise<string> {
  const { row } = await openAccessPoint(ctx, readAccount(request, given), given.Name);
  if (row.policy !== undefined) return row.policy.text;
  throw fail('NoSuchAccessPointPolicy', { elements: { AccessPointName: given.Name } });
}

export const GetAccessPointPolicy = action('GetAccessPointPolicy', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointPolicyResult,
  run: async (ctx, request, given) => ({ Policy: await readAccessPointPolicy(ctx, request, given) }),
});

export const DeleteAccessPointPolicy = action('DeleteAccessPointPolicy', named, {
  resource: formatResource,
  facts: readFacts,
  status: 204,
  async run(ctx, request, given) {
    const account = readAccount(request, given);
    await setAccessPointPolicy(
      ctx,
      { account, name: given.Name, record: request.record },
      { text: undefined },
    );
  },
});

export const GetAccessPointPolicyStatus = action('GetAccessPointPolicyStatus', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointPolicyStatusResult,
  async run(ctx, request, given) {
    const document = parsePolicy(await readAccessPointPolicy(ctx, request, given), {
      kind: 'access-point',
      isStored: true,
    });
    return { PolicyStatus: { IsPublic: isPublicPolicy(document) } };
  },
});
