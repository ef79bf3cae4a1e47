/**
 * The actions on virtual MFA devices:
 * https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateVirtualMFADevice.html and its neighbours.
 */

import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findNamed, getNamed, readsMax } from '../../domain/iam/entities.ts';
import {
  base32,
  createDevice,
  type DeviceHolder,
  type DeviceName,
  deactivateDevice,
  deleteDevice,
  enableDevice,
  listDevices,
  resyncDevice,
  userOfDevice,
} from '../../domain/iam/mfa.ts';
import type { DeviceRecord } from '../../metadata/iam.ts';
import { deviceArn, parseArn, rootArn, userArn } from '../../protocol/arns.ts';
import { element, many } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { oneOf, optional, text } from '../../protocol/operations/parameters.ts';
import { membersMax, mfaDevice, pageFields, virtualDevice } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import {
  type ActionRequest,
  mfaCode,
  page,
  pageEnd,
  pageFrom,
  path,
  serialNumber,
  userName,
  userOrCaller,
} from './fields.ts';
import { userResource } from './resources.ts';

const deviceName = text({
  max: 226,
  pattern: /^[\w+=,.@-]+$/,
  must: 'letters, digits and any of _+=,.@-',
});
/** A user's, or the account's id where the root means itself. */
const holderName = text({ max: 128, pattern: /^[\w+=,.@-]+$/, must: 'the name of a user' });

/** @throws NoSuchEntity for what is no device of the account */
function deviceNamed({ identity }: ActionRequest, serial: string): DeviceName {
  const parsed = parseArn(serial);
  if (parsed?.kind === 'mfa' && parsed.account === identity.owner) return parsed;
  throw fail('NoSuchEntity', `VirtualMFADevice with serial number ${serial} does not exist.`);
}

const deviceResource = (_ctx: unknown, _call: unknown, { SerialNumber }: { readonly SerialNumber: string }) =>
  SerialNumber;

/** Without a user name it is the caller, which may be the root. */
const holderResource = async (
  ctx: Context,
  request: ActionRequest,
  input: { readonly UserName: string | undefined },
): Promise<string> =>
  input.UserName === undefined && request.identity.root
    ? rootArn(request.identity.owner)
    : userResource(ctx, request, input);

/** The root of an account names itself by the account's id, or as `root` where no user is called so. */
async function findHolder(ctx: Context, { identity }: ActionRequest, name: string): Promise<DeviceHolder> {
  const { owner, root } = identity;
  const isRootName = name === owner || name === 'root';
  if (!root || !isRootName) return { user: name };
  const user = await findNamed(ctx, owner, { kind: 'user', name });
  return user === undefined ? 'root' : { user: name };
}

const describeDevice = async (ctx: Context, account: string, device: DeviceRecord) => {
  const user = await userOfDevice(ctx, account, device);
  const isRoot = device.user === '';
  return {
    SerialNumber: deviceArn(account, device),
    ...(user === undefined
      ? {}
      : {
          User: {
            Path: user.path,
            UserName: user.name,
            UserId: user.id,
            Arn: userArn(account, user),
            CreateDate: isoTime(user.created),
          },
        }),
    ...(isRoot ? { User: { Path: '/', UserId: account, Arn: rootArn(account) } } : {}),
    ...(device.enabled === undefined ? {} : { EnableDate: isoTime(device.enabled) }),
  };
};

/** The seed is shown this once; a picture of it is left to the client. */
export const CreateVirtualMFADevice = action(
  'CreateVirtualMFADevice',
  { VirtualMFADeviceName: deviceName, Path: optional(path) },
  {
    resource: (_ctx, { identity }, { VirtualMFADeviceName, Path }) =>
      deviceArn(identity.owner, { name: VirtualMFADeviceName, path: Path }),
    result: element({ VirtualMFADevice: virtualDevice }),
    async run(ctx, { identity: { owner } }, { VirtualMFADeviceName, Path = '/' }) {
      const { device, seed } = await createDevice(ctx, owner, { name: VirtualMFADeviceName, path: Path });
      const SerialNumber = deviceArn(owner, device);
      return { VirtualMFADevice: { SerialNumber, Base32StringSeed: btoa(base32(seed)) } };
    },
  },
);

/** The same parameters, of a device that is enabled or resynchronized. */
function codesAction(name: 'EnableMFADevice' | 'ResyncMFADevice', run: typeof enableDevice) {
  return action(
    name,
    {
      UserName: holderName,
      SerialNumber: serialNumber,
      AuthenticationCode1: mfaCode,
      AuthenticationCode2: mfaCode,
    },
    {
      resource: userResource,
      async run(ctx, request, input) {
        await run(ctx, request.identity.owner, {
          device: deviceNamed(request, input.SerialNumber),
          holder: await findHolder(ctx, request, input.UserName),
          codes: [input.AuthenticationCode1, input.AuthenticationCode2],
        });
      },
    },
  );
}

export const EnableMFADevice = codesAction('EnableMFADevice', enableDevice);
export const ResyncMFADevice = codesAction('ResyncMFADevice', resyncDevice);

export const DeactivateMFADevice = action(
  'DeactivateMFADevice',
  { UserName: optional(holderName), SerialNumber: serialNumber },
  {
    resource: holderResource,
    async run(ctx, request, input) {
      const { owner, root } = request.identity;
      const name = input.UserName === undefined && root ? owner : userOrCaller(request, input.UserName);
      await deactivateDevice(ctx, request.identity.owner, {
        device: deviceNamed(request, input.SerialNumber),
        holder: await findHolder(ctx, request, name),
      });
    },
  },
);

export const DeleteVirtualMFADevice = action(
  'DeleteVirtualMFADevice',
  { SerialNumber: serialNumber },
  {
    resource: deviceResource,
    run: (ctx, request, { SerialNumber }) =>
      deleteDevice(ctx, request.identity.owner, deviceNamed(request, SerialNumber)),
  },
);

/** Without a user name: the devices of the caller, which may be the root. */
export const ListMFADevices = action(
  'ListMFADevices',
  { ...page, UserName: optional(userName) },
  {
    resource: holderResource,
    result: element({ MFADevices: many(mfaDevice, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, request, input) {
      const { owner, root } = request.identity;
      const isRoot = input.UserName === undefined && root;
      const user = isRoot ? undefined : await userNamed(ctx, request, input.UserName);
      const { items, next } = await listDevices(ctx, owner, {
        ...pageFrom(input),
        keep: (device) => device.user === (user?.id ?? ''),
      });
      const MFADevices = items.map((device) => ({
        UserName: user?.name ?? owner,
        SerialNumber: deviceArn(owner, device),
        EnableDate: isoTime(device.enabled ?? device.created),
      }));
      return { MFADevices, ...pageEnd(next) };
    },
  },
);

const userNamed = (ctx: Context, request: ActionRequest, input: string | undefined) =>
  getNamed(ctx, request.identity.owner, { kind: 'user', name: userOrCaller(request, input) });

export const ListVirtualMFADevices = action(
  'ListVirtualMFADevices',
  { ...page, AssignmentStatus: optional(oneOf('Assigned', 'Unassigned', 'Any')) },
  {
    resource: () => '*',
    result: element({
      VirtualMFADevices: many(virtualDevice, { name: 'member', max: membersMax }),
      ...pageFields,
    }),
    async run(ctx, { identity: { owner } }, input) {
      const { AssignmentStatus: status = 'Any' } = input;
      const { items, next } = await listDevices(ctx, owner, {
        ...pageFrom(input),
        keep: ({ user }) => status === 'Any' || (status === 'Assigned') === (user !== undefined),
      });
      const VirtualMFADevices = await inParallel(readsMax, items, (device) =>
        describeDevice(ctx, owner, device),
      );
      return { VirtualMFADevices, ...pageEnd(next) };
    },
  },
);
