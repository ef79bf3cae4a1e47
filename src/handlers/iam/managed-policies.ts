/** The actions on managed policies: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreatePolicy.html and its neighbours. */
import { parsePolicy } from '../../auth/policy/document.ts';
import type { Context } from '../../context.ts';
import { withUses } from '../../domain/iam/attachments.ts';
import { listEntities, type Page } from '../../domain/iam/entities.ts';
import {
  builtInAccount,
  builtInPolicies,
  createPolicy,
  createVersion,
  deletePolicy,
  deleteVersion,
  findVersion,
  getPolicy,
  requireVersion,
  setDefaultVersion,
  type Version,
} from '../../domain/iam/managed-policies.ts';
import type { PolicyRecord } from '../../metadata/iam.ts';
import { policyArn } from '../../protocol/arns.ts';
import { element, many } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { flag, oneOf, optional, text } from '../../protocol/operations/parameters.ts';
import { membersMax, pageFields, policy, policyVersion } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { encodeDocument, tagFacts, tagField, toIamTags } from './descriptions.ts';
import {
  type ActionRequest,
  description,
  page,
  pageEnd,
  pageFrom,
  pageIn,
  path,
  pathPrefix,
  policyArnField,
  policyDocument,
  policyName,
  tags,
} from './fields.ts';
import { policyNamed } from './resources.ts';

const versionId = text({ max: 16, pattern: /^v[1-9]\d{0,8}$/, must: 'a version such as v1' });
const parseVersionNumber = (id: string): number => Number(id.slice(1));
/** Larger ones are refused by what keeps them. */
const anySize = 131_072;

const byArn = (_ctx: unknown, _call: unknown, { PolicyArn }: { readonly PolicyArn: string }): string =>
  PolicyArn;

const describeVersion = (
  { defaultVersion }: Pick<PolicyRecord, 'defaultVersion'>,
  { number, created }: Version,
) => ({
  VersionId: `v${number}`,
  IsDefaultVersion: number === defaultVersion,
  CreateDate: isoTime(created),
});

export const CreatePolicy = action(
  'CreatePolicy',
  {
    PolicyName: policyName,
    Path: optional(path),
    PolicyDocument: policyDocument,
    Description: optional(description),
    Tags: tags,
  },
  {
    resource: (_ctx, { identity }, { PolicyName, Path }) =>
      policyArn(identity.owner, { name: PolicyName, path: Path }),
    facts: ({ Tags }) => tagFacts(Tags),
    result: element({ Policy: policy }),
    async run(ctx, { identity: { owner } }, input) {
      parsePolicy(input.PolicyDocument, { kind: 'identity', sizeMax: anySize });
      const made = await createPolicy(ctx, owner, {
        name: input.PolicyName,
        path: input.Path ?? '/',
        description: input.Description ?? '',
        tags: toIamTags(input.Tags),
        text: input.PolicyDocument,
      });
      return { Policy: { ...describePolicy(owner, made), ...tagField(made.tags) } };
    },
  },
);

export const GetPolicy = action(
  'GetPolicy',
  { PolicyArn: policyArnField },
  {
    resource: byArn,
    result: element({ Policy: policy }),
    async run(ctx, request, { PolicyArn }) {
      const named = policyNamed(request, PolicyArn);
      const { owner } = request.identity;
      const found = await withUses(ctx, owner, await getPolicy(ctx, owner, named));
      const Description = found.description === '' ? {} : { Description: found.description };
      return { Policy: { ...describePolicy(named.account, found), ...Description, ...tagField(found.tags) } };
    },
  },
);

export const DeletePolicy = action(
  'DeletePolicy',
  { PolicyArn: policyArnField },
  {
    resource: byArn,
    run: (ctx, request, { PolicyArn }) =>
      deletePolicy(ctx, request.identity.owner, {
        policy: policyNamed(request, PolicyArn),
        withVersions: false,
      }),
  },
);

export const CreatePolicyVersion = action(
  'CreatePolicyVersion',
  { PolicyArn: policyArnField, PolicyDocument: policyDocument, SetAsDefault: optional(flag) },
  {
    resource: byArn,
    result: element({ PolicyVersion: policyVersion }),
    async run(ctx, request, { PolicyArn, PolicyDocument, SetAsDefault = false }) {
      parsePolicy(PolicyDocument, { kind: 'identity', sizeMax: anySize });
      const made = await createVersion(ctx, request.identity.owner, {
        policy: policyNamed(request, PolicyArn),
        text: PolicyDocument,
        isDefault: SetAsDefault,
      });
      const defaultVersion = SetAsDefault ? made.number : 0;
      return { PolicyVersion: describeVersion({ defaultVersion }, made) };
    },
  },
);

export const GetPolicyVersion = action(
  'GetPolicyVersion',
  { PolicyArn: policyArnField, VersionId: versionId },
  {
    resource: byArn,
    result: element({ PolicyVersion: policyVersion }),
    async run(ctx, request, { PolicyArn, VersionId }) {
      const { owner } = request.identity;
      const found = await getPolicy(ctx, owner, policyNamed(request, PolicyArn));
      const version = requireVersion(found, parseVersionNumber(VersionId));
      const document = await findVersion(ctx, owner, { id: found.id, version: version.number });
      const Document = encodeDocument(document?.text ?? '');
      return { PolicyVersion: { Document, ...describeVersion(found, version) } };
    },
  },
);

/** Five at most, the newest first. */
export const ListPolicyVersions = action(
  'ListPolicyVersions',
  { ...page, PolicyArn: policyArnField },
  {
    resource: byArn,
    result: element({ Versions: many(policyVersion, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, request, input) {
      const found = await getPolicy(ctx, request.identity.owner, policyNamed(request, input.PolicyArn));
      const { items, end } = pageIn(found.versions, input, ({ number }) =>
        String(Number.MAX_SAFE_INTEGER - number),
      );
      return { Versions: items.map((version) => describeVersion(found, version)), ...end };
    },
  },
);

const versionNamed = (
  request: ActionRequest,
  { PolicyArn, VersionId }: { readonly PolicyArn: string; readonly VersionId: string },
) => ({ policy: policyNamed(request, PolicyArn), version: parseVersionNumber(VersionId) });

export const SetDefaultPolicyVersion = action(
  'SetDefaultPolicyVersion',
  { PolicyArn: policyArnField, VersionId: versionId },
  {
    resource: byArn,
    run: (ctx, request, input) =>
      setDefaultVersion(ctx, request.identity.owner, versionNamed(request, input)),
  },
);

export const DeletePolicyVersion = action(
  'DeletePolicyVersion',
  { PolicyArn: policyArnField, VersionId: versionId },
  {
    resource: byArn,
    run: (ctx, request, input) => deleteVersion(ctx, request.identity.owner, versionNamed(request, input)),
  },
);

// ListPolicies: those that every account has, then the account's own.

interface Asked {
  readonly scope: 'All' | 'AWS' | 'Local';
  readonly pathPrefix: string;
  readonly after: string | undefined;
  readonly max: number;
  readonly keep: (policy: PolicyRecord) => boolean;
}
interface Listed {
  readonly account: string;
  readonly policy: PolicyRecord;
}

/** A prefix of markers: the page ended with a built-in policy. */
const builtInMark = 'aws/';
const ownMark = 'own/';

async function builtIn(ctx: Context, account: string, asked: Asked): Promise<readonly PolicyRecord[]> {
  const { scope, after, keep, pathPrefix: under } = asked;
  if (scope === 'Local' || after?.startsWith(ownMark)) return [];
  const from = builtInPolicies.findIndex(({ name }) => builtInMark + name === after) + 1;
  const all = builtInPolicies.slice(from).map((each) => withUses(ctx, account, each));
  return (await Promise.all(all)).filter((each) => each.path.startsWith(under) && keep(each));
}

async function list(ctx: Context, account: string, asked: Asked): Promise<Page<Listed>> {
  const { scope, after, max, keep, pathPrefix: under } = asked;
  const first = await builtIn(ctx, account, asked);
  const items = first.slice(0, max).map((each): Listed => ({ account: builtInAccount, policy: each }));
  const last = first[max - 1];
  if (scope === 'AWS')
    return first.length > max && last ? { items, next: builtInMark + last.name } : { items };
  if (last !== undefined) return { items, next: builtInMark + last.name };
  const own = await listEntities(ctx, account, {
    kind: 'policy',
    pathPrefix: under,
    keep,
    after: after?.startsWith(ownMark) ? after.slice(ownMark.length) : undefined,
    max: max - items.length,
  });
  const all = [...items, ...own.items.map((each): Listed => ({ account, policy: each }))];
  return own.next === undefined ? { items: all } : { items: all, next: ownMark + own.next };
}

export const ListPolicies = action(
  'ListPolicies',
  {
    ...page,
    Scope: optional(oneOf('All', 'AWS', 'Local')),
    OnlyAttached: optional(flag),
    PathPrefix: optional(pathPrefix),
    PolicyUsageFilter: optional(oneOf('PermissionsPolicy', 'PermissionsBoundary')),
  },
  {
    resource: () => '*',
    result: element({ Policies: many(policy, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, { identity: { owner } }, input) {
      const { Scope = 'All', OnlyAttached = false, PathPrefix = '/', PolicyUsageFilter: use } = input;
      const { items, next } = await list(ctx, owner, {
        ...pageFrom(input),
        scope: Scope,
        pathPrefix: PathPrefix,
        keep: ({ attachments, boundaries }) =>
          (!OnlyAttached || attachments > 0) &&
          (use === undefined || (use === 'PermissionsPolicy' ? attachments : boundaries) > 0),
      });
      const Policies = items.map((each) => describePolicy(each.account, each.policy));
      return { Policies, ...pageEnd(next) };
    },
  },
);

const describePolicy = (account: string, found: PolicyRecord) => ({
  PolicyName: found.name,
  PolicyId: found.id,
  Arn: policyArn(account, found),
  Path: found.path,
  DefaultVersionId: `v${found.defaultVersion}`,
  AttachmentCount: found.attachments,
  PermissionsBoundaryUsageCount: found.boundaries,
  IsAttachable: true,
  CreateDate: isoTime(found.created),
  UpdateDate: isoTime(found.updated),
});
