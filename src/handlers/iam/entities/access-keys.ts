/** The actions on access keys: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateAccessKey.html and its neighbours. */

import {
  createAccessKey,
  deleteAccessKey,
  listAccessKeys,
  readLastUse,
  updateAccessKey,
} from '../../../domain/iam/access-keys.ts';
import { element, many, token } from '../../../protocol/formats/codec.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';
import { oneOf, optional } from '../../../protocol/operations/parameters.ts';
import {
  accessKey,
  accessKeyLastUsed,
  accessKeyMetadata,
  membersMax,
  pageFields,
} from '../../../protocol/schemas/account/iam.ts';
import { action } from '../action.ts';
import { accessKeyId, page, userName, userOrCaller } from '../fields.ts';
import { userResource } from '../resources.ts';

export const CreateAccessKey = action(
  'CreateAccessKey',
  { UserName: optional(userName) },
  {
    resource: userResource,
    result: element({ AccessKey: accessKey }),
    async run(ctx, request, { UserName }) {
      const user = userOrCaller(request, UserName);
      const made = await createAccessKey(ctx, request.identity.owner, user);
      return {
        AccessKey: {
          UserName: user,
          AccessKeyId: made.accessKey,
          Status: made.status,
          SecretAccessKey: made.secretKey,
          CreateDate: isoTime(made.created),
        },
      };
    },
  },
);

/** A user has two at most: a page holds them all. */
export const ListAccessKeys = action(
  'ListAccessKeys',
  { ...page, UserName: optional(userName) },
  {
    resource: userResource,
    result: element({
      AccessKeyMetadata: many(accessKeyMetadata, { name: 'member', max: membersMax }),
      ...pageFields,
    }),
    async run(ctx, request, { UserName }) {
      const user = userOrCaller(request, UserName);
      const keys = await listAccessKeys(ctx, request.identity.owner, user);
      const AccessKeyMetadata = keys.map((key) => ({
        UserName: user,
        AccessKeyId: key.accessKey,
        Status: key.status,
        CreateDate: isoTime(key.created),
      }));
      return { AccessKeyMetadata, IsTruncated: false };
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
    resource: userResource,
    async run(ctx, request, { UserName, AccessKeyId, Status }) {
      const user = userOrCaller(request, UserName);
      await updateAccessKey(ctx, request.identity.owner, { user, accessKey: AccessKeyId, status: Status });
    },
  },
);

export const DeleteAccessKey = action(
  'DeleteAccessKey',
  { UserName: optional(userName), AccessKeyId: accessKeyId },
  {
    resource: userResource,
    async run(ctx, request, { UserName, AccessKeyId }) {
      const user = userOrCaller(request, UserName);
      await deleteAccessKey(ctx, request.identity.owner, { user, accessKey: AccessKeyId });
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
