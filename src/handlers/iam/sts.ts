/** The actions of STS. */

import { type Assumption, assertMayAssume } from '../../auth/authorize.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import { callerOf } from '../../auth/principal.ts';
import { verifyMfa } from '../../auth/session/mfa.ts';
import { issueSession, packedPercent } from '../../auth/session/sessions.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findKey } from '../../domain/iam/access-keys.ts';
import { findNamed, mergeTags } from '../../domain/iam/entities.ts';
import { getPolicy } from '../../domain/iam/managed-policies.ts';
import { readTrust } from '../../domain/iam/roles.ts';
import type { IamTag, RoleRecord } from '../../metadata/iam.ts';
import type { Opener } from '../../ports/credentials.ts';
import { parseArn, sessionArn } from '../../protocol/arns.ts';
import { element, token } from '../../protocol/formats/codec.ts';
import { integer, list, optional, structure, text } from '../../protocol/operations/parameters.ts';
import { assumeRoleResult, credentials } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { resourceTagFacts, tagFacts, toIamTags } from './descriptions.ts';
import {
  type ActionRequest,
  accessKeyId,
  mfaCode,
  policyArnField,
  policyDocument,
  serialNumber,
  tagKeys,
  tags,
} from './fields.ts';
import { policyNamed } from './resources.ts';

// The code of an MFA device in a request for temporary credentials.

const codeParameters = { SerialNumber: optional(serialNumber), TokenCode: optional(mfaCode) };

/**
 * The time of a valid code (now), or undefined without a code.
 * @throws AccessDenied for an invalid code
 */
async function issuedAt(
  ctx: Context,
  { identity }: ActionRequest,
  input: { readonly SerialNumber: string | undefined; readonly TokenCode: string | undefined },
): Promise<number | undefined> {
  const { SerialNumber: serial, TokenCode: code } = input;
  if (serial === undefined && code === undefined) return undefined;
  if (serial === undefined || code === undefined)
    throw fail('ValidationError', 'SerialNumber and TokenCode come together.');
  if (await verifyMfa(ctx, identity, { serial, code })) return ctx.clock.now();
  throw fail('AccessDenied', 'MultiFactorAuthentication failed with invalid MFA one time pass code.');
}

// The actions of STS about the caller itself, and about keys.

/** Every caller with a valid signature may read its own identity. */
export const GetCallerIdentity = action(
  'GetCallerIdentity',
  {},
  {
    resource: 'anybody',
    result: element({ Arn: token, UserId: token, Account: token }),
    run: (_ctx, { identity }) => {
      const { account, arn, sessionArn, userid } = callerOf(identity);
      return { Arn: sessionArn ?? arn, UserId: userid, Account: account };
    },
  },
);

const sessionSeconds = integer({ min: 900, max: 129_600 });
const userSecondsDefault = 43_200;
const rootSecondsMax = 3_600;

/** A user needs no permission for its own session, which may do what the user may. */
export const GetSessionToken = action(
  'GetSessionToken',
  { DurationSeconds: optional(sessionSeconds), ...codeParameters },
  {
    resource: 'anybody',
    result: element({ Credentials: credentials }),
    async run(ctx, request, { DurationSeconds, ...code }) {
      const { accessKey, iam, owner, root, session } = request.identity;
      if (session !== undefined)
        throw fail('AccessDenied', 'Cannot request GetSessionToken with session credentials');
      const seconds = root
        ? Math.min(DurationSeconds ?? rootSecondsMax, rootSecondsMax)
        : (DurationSeconds ?? userSecondsDefault);
      const of = iam === undefined ? { configured: accessKey } : { user: iam.id };
      const mfaAt = await issuedAt(ctx, request, code);
      const asked = { account: owner, of, seconds, ...(mfaAt === undefined ? {} : { mfaAt }) };
      const { issued: issuedSession } = await issueSession(ctx, asked);
      return { Credentials: issuedSession };
    },
  },
);

/** The account of a key: to itself, and to operators. */
export const GetAccessKeyInfo = action(
  'GetAccessKeyInfo',
  { AccessKeyId: accessKeyId },
  {
    resource: () => '*',
    result: element({ Account: token }),
    async run(ctx, request, { AccessKeyId }) {
      const owner = await findOwner(ctx, request, AccessKeyId);
      if (owner === undefined || (owner !== request.identity.owner && !request.identity.operator))
        throw fail('ValidationError', `The access key ${AccessKeyId} is not known to your account.`);
      return { Account: owner };
    },
  },
);

/** The owner, also for an inactive key. */
async function findOwner(
  ctx: Context,
  { identity }: ActionRequest,
  accessKey: string,
): Promise<string | undefined> {
  const found = await ctx.credentials.find(accessKey);
  if (found !== undefined) return found.owner;
  const inactive = await findKey(ctx, identity.owner, accessKey);
  return inactive === undefined ? undefined : identity.owner;
}

// AssumeRole: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html

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
  async run(ctx, request, input) {
    request.record?.about(input.RoleArn);
    const passed = request.identity.session?.passedOn ?? [];
    const brought = mergeTags([], toIamTags(input.Tags));
    refuseChange(passed, brought);
    const sessionTags = [...passed, ...brought];
    const mfaAt = await issuedAt(ctx, request, input);
    const named = new Map<string, string | readonly string[]>([
      ...(mfaAt === undefined ? [] : codeFacts),
      ...tagFacts(sessionTags.map(([Key, Value]) => ({ Key, Value }))),
      ['sts:RoleSessionName', input.RoleSessionName] as const,
      ['sts:TransitiveTagKeys', input.TransitiveTagKeys] as const,
      ...(input.ExternalId === undefined ? [] : [['sts:ExternalId', input.ExternalId] as const]),
    ]);
    const hasTags = input.Tags.length > 0;
    const { account, role } = await assumable(ctx, request, { arn: input.RoleArn, named, hasTags });
    const seconds = chooseDuration(request, role, input.DurationSeconds);
    const limits = await readLimits(ctx, account, input);
    // The names of tags compare without regard to case.
    const retained = new Set(
      [...input.TransitiveTagKeys, ...passed.map(([key]) => key)].map((key) => key.toLowerCase()),
    );
    const passedOn = sessionTags.filter(([key]) => retained.has(key.toLowerCase()));
    const { claims, issued: issuedSession } = await issueSession(ctx, {
      account,
      of: { role: role.id, name: input.RoleSessionName },
      seconds,
      ...limits,
      ...(mfaAt === undefined ? {} : { mfaAt }),
      ...(sessionTags.length === 0 ? {} : { tags: sessionTags }),
      ...(passedOn.length === 0 ? {} : { passedOn }),
      by: findOpener(request),
    });
    const Arn = sessionArn(account, { role: role.name, name: input.RoleSessionName });
    return {
      AssumedRoleUser: { AssumedRoleId: `${role.id}:${input.RoleSessionName}`, Arn },
      Credentials: issuedSession,
      ...(Object.keys(limits).length === 0 && sessionTags.length === 0
        ? {}
        : { PackedPolicySize: packedPercent(claims) }),
    };
  },
});

/** The caller who assumes the role, or who assumed the first role of the chain, with the accounts of the roles in between. */
function findOpener({ identity }: ActionRequest): Opener {
  const { session, iam, owner, caller } = identity;
  const by = session?.by;
  if (by !== undefined)
    return owner === by.account ? by : { ...by, through: [...new Set([...(by.through ?? []), owner])] };
  return { account: owner, ...(iam !== undefined && caller?.kind === 'user' ? { user: iam.id } : {}) };
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
  input: { readonly Policy: string | undefined; readonly PolicyArns: readonly { readonly arn: string }[] },
) {
  const { Policy: inline, PolicyArns } = input;
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
