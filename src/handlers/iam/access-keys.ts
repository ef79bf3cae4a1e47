/** The actions on access keys: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateAccessKey.html and its neighbours. */
import { callerOf } from '../../auth/principal.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/common/recorder.ts';
import {
  type AccessKey,
  createAccessKey,
  deleteAccessKey,
  listAccessKeys,
  readLastUse,
  updateAccessKey,
} from '../../domain/iam/access-keys.ts';
import {
  createRootKey,
  deleteRootKey,
  listRootKeys,
  updateRootKey,
} from '../../domain/iam/account-profiles.ts';
import { rootArn } from '../../protocol/arns.ts';
import { element, many, token } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { oneOf, optional } from '../../protocol/operations/parameters.ts';
import {
  accessKey,
  accessKeyLastUsed,
  accessKeyMetadata,
  membersMax,
  pageFields,
} from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { type ActionRequest, accessKeyId, page, pageIn, userName, userOrCaller } from './fields.ts';
import { userResource } from './resources.ts';

type Ctx = Context & { readonly record?: Recorder | undefined };
interface Named {
  readonly UserName?: string | undefined;
}

/** An action of the root that names no user is about the keys of the root itself, as in the public API. */
const isOfRoot = ({ identity }: ActionRequest, { UserName }: Named): boolean =>
  UserName === undefined && callerOf(identity).kind === 'root';

const keyResource = (ctx: Ctx, request: ActionRequest, named: Named): Promise<string> =>
  isOfRoot(request, named)
    ? Promise.resolve(rootArn(request.identity.owner))
    : userResource(ctx, request, named);

/** The keys that an action is about. */
function openKeys(ctx: Ctx, request: ActionRequest, named: Named) {
  const { owner } = request.identity;
  if (isOfRoot(request, named))
    return {
      holder: {},
      create: () => createRootKey(ctx, owner),
      list: () => listRootKeys(ctx, owner),
      update: (accessKey: string, status: AccessKey['status']) =>
        updateRootKey(ctx, owner, { accessKey, status }),
      remove: (accessKey: string) => deleteRootKey(ctx, owner, accessKey),
    };
  const user = userOrCaller(request, named.UserName);
  return {
    holder: { UserName: user },
    create: () => createAccessKey(ctx, owner, user),
    list: () => listAccessKeys(ctx, owner, user),
    update: (accessKey: string, status: AccessKey['status']) =>
      updateAccessKey(ctx, owner, { user, accessKey, status }),
    remove: (accessKey: string) => deleteAccessKey(ctx, owner, { user, accessKey }),
  };
}

export const CreateAccessKey = action(
  'CreateAccessKey',
  { UserName: optional(userName) },
  {
    resource: keyResource,
    result: element({ AccessKey: accessKey }),
    async run(ctx, request, named) {
      const { holder, create } = openKeys(ctx, request, named);
      const made = await create();
      return {
        AccessKey: {
          ...holder,
          AccessKeyId: made.accessKey,
          Status: made.status,
          SecretAccessKey: made.secretKey,
          CreateDate: isoTime(made.created),
        },
      };
    },
  },
);

/** A user or root has two at most, the older first. */
export const ListAccessKeys = action(
  'ListAccessKeys',
  { ...page, UserName: optional(userName) },
  {
    resource: keyResource,
    result: element({
      AccessKeyMetadata: many(accessKeyMetadata, { name: 'member', max: membersMax }),
      ...pageFields,
    }),
    async run(ctx, request, named) {
      const { holder, list } = openKeys(ctx, request, named);
      const { items, end } = pageIn(await list(), named, ({ created, accessKey }) =>
        [isoTime(created), accessKey].join(' '),
      );
      const AccessKeyMetadata = items.map((key) => ({
        ...holder,
        AccessKeyId: key.accessKey,
        Status: key.status,
        CreateDate: isoTime(key.created),
      }));
      return { AccessKeyMetadata, ...end };
    },
  },
);

export const UpdateAccessKey = action(
  'UpdateAccessKey',
  {
    UserName: optional(userName),
    AccessKeyId: accessKeyId,
    Status: oneOf('Active', 'Inactive'),
  },
  {
    resource: keyResource,
    async run(ctx, request, named) {
      await openKeys(ctx, request, named).update(named.AccessKeyId, named.Status);
    },
  },
);

export const DeleteAccessKey = action(
  'DeleteAccessKey',
  { UserName: optional(userName), AccessKeyId: accessKeyId },
  {
    resource: keyResource,
    async run(ctx, request, named) {
      await openKeys(ctx, request, named).remove(named.AccessKeyId);
    },
  },
);

export const GetAccessKeyLastUsed = action(
  'GetAccessKeyLastUsed',
  { AccessKeyId: accessKeyId },
  {
    resource: () => '*',
    result: element({ UserName: token, AccessKeyLastUsed: accessKeyLastUsed }),
    async run(ctx, { identity }, { AccessKeyId }) {
      const { userName: user, use } = await readLastUse(ctx, identity.owner, AccessKeyId);
      return {
        UserName: user,
        AccessKeyLastUsed:
          use === undefined
            ? { ServiceName: 'N/A', Region: 'N/A' }
            : {
                LastUsedDate: isoTime(use.at),
                ServiceName: use.service,
                Region: use.region,
              },
      };
    },
  },
);
