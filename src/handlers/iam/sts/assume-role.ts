/** AssumeRole: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html */

import { parsePolicy } from '../../../auth/policy/document/document.ts';
import { type Assumption, assertMayAssume } from '../../../auth/session/assume-role.ts';
import { callerOf } from '../../../auth/session/principal.ts';
import { packedPercent, type SessionClaims } from '../../../auth/session/session-token.ts';
import type { Context } from '../../../context.ts';
import { findNamed } from '../../../domain/iam/entities.ts';
import { getPolicy } from '../../../domain/iam/policies/managed-policies.ts';
import { readTrust } from '../../../domain/iam/roles.ts';
import { mergeTags } from '../../../domain/iam/tags.ts';
import { fail } from '../../../errors/refusal.ts';
import type { IamTag, RoleRecord } from '../../../metadata/iam.ts';
import { integer, list, optional, structure, text } from '../../../protocol/operations/parameters.ts';
import { parseArn, sessionArn } from '../../../protocol/request/arns.ts';
import { assumeRoleResult } from '../../../protocol/schemas/account/sts.ts';
import { action } from '../action.ts';
import type { ActionRequest } from '../action-request.ts';
import { policyArnField, policyDocument, tagKeys, tags } from '../fields.ts';
import { policyNamed } from '../resources.ts';
import { resourceTagFacts, tagFacts, toIamTags } from '../shown.ts';
import { issue } from './session-credentials.ts';
import { codeParameters, shownAt } from './shown-code.ts';

const sessionName = text({
  min: 2,
  max: 64,
  pattern: /^[\w+=,.@-]+$/,
  must: 'letters, digits and any of _+=,.@-',
});
const externalId = text({
  min: 2,
  max: 1_224,
  pattern: /^[\w+=,.@:/-]+$/,
  must: 'letters, digits and any of _+=,.@:/-',
});
const secondsDefault = 3_600;
/** The limit for a role that is assumed by a role's session. */
const chainedSecondsMax = 3_600;

const parameters = {
  RoleArn: text({ min: 20, max: 2_048 }),
  RoleSessionName: sessionName,
  DurationSeconds: optional(integer({ min: 900, max: 43_200 })),
  ExternalId: optional(externalId),
  Policy: optional(policyDocument),
  PolicyArns: list(structure({ arn: policyArnField }), { max: 10 }),
  Tags: tags,
  TransitiveTagKeys: tagKeys,
  ...codeParameters,
};

/** The facts that trust policies get about an MFA code in the request. */
const codeFacts = [
  ['aws:MultiFactorAuthPresent', 'true'],
  ['aws:MultiFactorAuthAge', '0'],
] as const;

interface Assumed {
  readonly account: string;
  readonly role: RoleRecord;
}

export const AssumeRole = action('AssumeRole', parameters, {
  // No resource is checked here, because the role's trust policy decides.
  resource: 'anybody',
  result: assumeRoleResult,
  async run(ctx, request, given) {
    request.record?.about(given.RoleArn);
    const passed = request.identity.session?.passedOn ?? [];
    const brought = mergeTags([], toIamTags(given.Tags));
    refuseChange(passed, brought);
    const sessionTags = [...passed, ...brought];
    const mfaAt = await shownAt(ctx, request, given);
    const named = new Map<string, string | readonly string[]>([
      ...(mfaAt === undefined ? [] : codeFacts),
      ...tagFacts(sessionTags.map(([Key, Value]) => ({ Key, Value }))),
      ['sts:RoleSessionName', given.RoleSessionName] as const,
      ['sts:TransitiveTagKeys', given.TransitiveTagKeys] as const,
      ...(given.ExternalId === undefined ? [] : [['sts:ExternalId', given.ExternalId] as const]),
    ]);
    const hasTags = given.Tags.length > 0;
    const { account, role } = await assumable(ctx, request, { arn: given.RoleArn, named, hasTags });
    const seconds = chooseDuration(request, role, given.DurationSeconds);
    const limits = await readLimits(ctx, account, given);
    const kept = new Set([...given.TransitiveTagKeys, ...passed.map(([key]) => key)]);
    const passedOn = sessionTags.filter(([key]) => kept.has(key));
    const { claims, shown } = await issue(ctx, {
      account,
      of: { role: role.id, name: given.RoleSessionName },
      seconds,
      ...limits,
      ...(mfaAt === undefined ? {} : { mfaAt }),
      ...(sessionTags.length === 0 ? {} : { tags: sessionTags }),
      ...(passedOn.length === 0 ? {} : { passedOn }),
      ...assumedBy(request),
    });
    const Arn = sessionArn(account, { role: role.name, name: given.RoleSessionName });
    return {
      AssumedRoleUser: { AssumedRoleId: `${role.id}:${given.RoleSessionName}`, Arn },
      Credentials: shown,
      ...(Object.keys(limits).length === 0 && sessionTags.length === 0
        ? {}
        : { PackedPolicySize: packedPercent(claims) }),
    };
  },
});

/** The IAM user who assumes the role, or who assumed the role of the session that does. */
function assumedBy({ identity }: ActionRequest): Pick<SessionClaims, 'by'> {
  const { session, iam, owner, caller } = identity;
  if (session?.by !== undefined) return { by: session.by };
  return iam !== undefined && caller?.kind === 'user' ? { by: { account: owner, user: iam.id } } : {};
}

/** Tags that were passed on cannot be replaced. */
function refuseChange(passed: readonly IamTag[], brought: readonly IamTag[]): void {
  const keys = new Set(passed.map(([key]) => key.toLowerCase()));
  const changed = brought.find(([key]) => keys.has(key.toLowerCase()));
  if (changed !== undefined)
    throw fail('InvalidParameterValue', `The tag ${changed[0]} was passed on to this session.`);
}

/** @throws AccessDenied, also for a role that does not exist */
async function assumable(
  ctx: Context,
  request: ActionRequest,
  asked: Pick<Assumption, 'arn' | 'named' | 'hasTags'>,
): Promise<Assumed> {
  const parsed = parseArn(asked.arn);
  if (parsed?.kind !== 'role') throw fail('ValidationError', `${asked.arn} is invalid`);
  const { account, name, path } = parsed;
  const found = await findNamed(ctx, account, { kind: 'role', name });
  const role = found?.path === path ? found : undefined;
  await assertMayAssume(ctx, request, {
    ...asked,
    account,
    role: role && { trust: await readTrust(ctx, account, role), tags: new Map(resourceTagFacts(role.tags)) },
  });
  // A role that does not exist trusts no caller.
  if (role === undefined) throw fail('AccessDenied');
  return { account, role };
}

function chooseDuration({ identity }: ActionRequest, role: RoleRecord, asked: number | undefined): number {
  const isChained = callerOf(identity).kind === 'session';
  const max = isChained ? Math.min(chainedSecondsMax, role.sessionSecondsMax) : role.sessionSecondsMax;
  const seconds = asked ?? secondsDefault;
  if (seconds <= max) return seconds;
  throw fail(
    'ValidationError',
    isChained
      ? 'The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining'
      : 'The requested DurationSeconds exceeds the MaxSessionDuration set for this role.',
  );
}

/** The policies that the session is limited to; managed ones are those of the role's account. */
async function readLimits(
  ctx: Context,
  account: string,
  given: { readonly Policy: string | undefined; readonly PolicyArns: readonly { readonly arn: string }[] },
) {
  const { Policy: inline, PolicyArns } = given;
  if (inline !== undefined) parsePolicy(inline, { kind: 'session' });
  const request = { identity: { owner: account } };
  const managed = await Promise.all(
    PolicyArns.map(async ({ arn }) => (await getPolicy(ctx, account, policyNamed(request, arn))).id),
  );
  return {
    ...(inline === undefined ? {} : { inline }),
    ...(managed.length === 0 ? {} : { managed }),
  };
}
