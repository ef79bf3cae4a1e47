/** The permission that an operation on an access point requires, and the facts for its conditions. */
import { accessPointFacts } from '../../../auth/authorization/access-point.ts';
import type { Context } from '../../../context.ts';
import { accessPointArn } from '../../../domain/access/access-points.ts';
import { findAccessPoint } from '../../../metadata/buckets/access-points.ts';
import type { Asking } from '../../iam/action.ts';
import type { ActionRequest } from '../../iam/action-request.ts';
import { readAccount } from './fields.ts';

interface Named {
  readonly AccountId: string | undefined;
  readonly Name: string;
}

/** For an access point that is about to be created, the parameters name it. */
async function named({ metadata, config }: Context, request: ActionRequest, given: Named) {
  const account = readAccount(request, given);
  const found = await findAccessPoint(metadata, account, given.Name);
  return { account, name: given.Name, region: found?.row.region ?? config.SVC_REGION };
}

export const formatResource = async (ctx: Context, request: ActionRequest, given: Named): Promise<string> =>
  accessPointArn(await named(ctx, request, given));

export const readFacts = async (
  given: Named,
  { ctx, request }: Asking,
): Promise<ReadonlyMap<string, string>> => accessPointFacts(await named(ctx, request, given));
