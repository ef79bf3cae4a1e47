/** Virtual MFA devices of the users of an account, and of the caller itself. */
import { assertOwnAllowed, ownPrincipal, ownRefusal } from '../../auth/administer.ts';
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findNamed, readsMax } from '../../domain/iam/entities.ts';
import {
  base32,
  createDevice,
  type DeviceHolder,
  deactivateDevice,
  deleteDevice,
  enableDevice,
  findDevice,
  getDevice,
  listDevices,
  resyncDevice,
  userOfDevice,
} from '../../domain/iam/mfa.ts';
import type { DeviceRecord } from '../../metadata/iam.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { deviceArn, userArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, jsonReply, nameIn } from './call.ts';
import { assertExactName, openAccount } from './iam-entities.ts';

const iso = (ms: number): string => new Date(ms).toISOString();

const deviceJson = (account: string, device: DeviceRecord) => ({
  name: device.name,
  serialNumber: deviceArn(account, device),
  created: iso(device.created),
  ...(device.enabled === undefined ? {} : { enabled: iso(device.enabled) }),
});

const issuer = 'sluice';

/** What authenticator apps read from a QR code: https://github.com/google/google-authenticator/wiki/Key-Uri-Format */
function formatUri(
  account: string,
  { name, seed }: { readonly name: string; readonly seed: string },
): string {
  const label = encodeURIComponent(`${issuer}:${name}@${account}`);
  return `otpauth://totp/${label}?${new URLSearchParams({ secret: seed, issuer })}`;
}

/** The seed is in this reply only. */
async function createReply(ctx: Context, account: string, name: string) {
  const made = await createDevice(ctx, account, { name, path: '/' });
  const seed = base32(made.seed);
  return jsonReply({ ...deviceJson(account, made.device), seed, uri: formatUri(account, { name, seed }) });
}

// Those of an account.

export const ListIamMfaDevices: AdminHandler<'ListIamMfaDevices'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { limit = pageDefault, after, user: name, assignment } = call.query;
  await assertExactName(ctx, account, { kind: 'user', name });
  const user = name === undefined ? undefined : await findNamed(ctx, account, { kind: 'user', name });
  if (name !== undefined && user === undefined) throw fail('NoSuchEntity', 'There is no user of this name.');
  const { items, ...end } = await listDevices(ctx, account, {
    after,
    max: limit,
    keep: ({ user: id }) =>
      (user === undefined || id === user.id) &&
      (assignment === undefined || (assignment === 'Assigned') === (id !== undefined)),
  });
  const rows = await inParallel(readsMax, items, async (device) => {
    const holder = user ?? (await userOfDevice(ctx, account, device));
    return {
      ...deviceJson(account, device),
      ...(holder === undefined ? {} : { user: holder.name }),
      isRoot: device.user === '',
    };
  });
  return jsonReply({ rows, ...end });
};

export const CreateIamMfaDevice: AdminHandler<'CreateIamMfaDevice'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { name } = call.body;
  call.record?.about(deviceArn(account, { name, path: '/' }));
  return createReply(ctx, account, name);
};

export const DeleteIamMfaDevice: AdminHandler<'DeleteIamMfaDevice'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const device = await getDevice(ctx, account, nameIn(call, 'device'));
  call.record?.about(deviceArn(account, device));
  await deleteDevice(ctx, account, device);
  return emptyReply(204);
};

/** The user and the device of the path. */
async function openUserDevice(outer: Context, call: Pick<AdminRequest, 'params' | 'record'>) {
  const { ctx, account } = await openAccount(outer, call);
  const user = nameIn(call, 'user');
  call.record?.about(userArn(account, { name: user }));
  const device = await getDevice(ctx, account, nameIn(call, 'device'));
  return { ctx, account, device, holder: { user } };
}

export const EnableIamMfaDevice: AdminHandler<'EnableIamMfaDevice'> = async (outer, call) => {
  const { ctx, account, ...named } = await openUserDevice(outer, call);
  const { code1, code2 } = call.body;
  await enableDevice(ctx, account, { ...named, codes: [code1, code2] });
  return emptyReply(204);
};

export const DeactivateIamMfaDevice: AdminHandler<'DeactivateIamMfaDevice'> = async (outer, call) => {
  const { ctx, account, ...named } = await openUserDevice(outer, call);
  await deactivateDevice(ctx, account, named);
  return emptyReply(204);
};

export const ResyncIamMfaDevice: AdminHandler<'ResyncIamMfaDevice'> = async (outer, call) => {
  const { ctx, account, ...named } = await openUserDevice(outer, call);
  const { code1, code2 } = call.body;
  await resyncDevice(ctx, account, { ...named, codes: [code1, code2] });
  return emptyReply(204);
};

// Those of the caller itself: what IAM allows about them, for a page that has no secret to sign requests of IAM with.

/** The caller, which is a user or the root of its account. @throws AccessDenied */
function openOwn(outer: Context, call: Pick<AdminRequest, 'caller' | 'identity' | 'record'>) {
  const principal = ownPrincipal(call, 'MFA devices');
  call.record?.about(principal.arn);
  const user = principal.username;
  const holder: DeviceHolder = principal.kind === 'root' || user === undefined ? 'root' : { user };
  return {
    ctx: { ...outer, record: call.record },
    account: call.identity?.owner ?? '',
    holder,
    /** @param resource absent: the caller itself */
    assertAllowed: (action: string, resource = principal.arn) =>
      assertOwnAllowed(outer, call.caller, { action, resource }),
  };
}

export const ListOwnMfaDevices: AdminHandler<'ListOwnMfaDevices'> = async (outer, call) => {
  const { ctx, account, holder, assertAllowed } = openOwn(outer, call);
  await assertAllowed('iam:ListMFADevices');
  const user =
    holder === 'root' ? undefined : await findNamed(ctx, account, { kind: 'user', name: holder.user });
  if (holder !== 'root' && user === undefined)
    throw fail('NoSuchEntity', 'IAM has no such user: the settings have it.');
  const read = async (keep: (device: DeviceRecord) => boolean) => {
    const { items } = await listDevices(ctx, account, { after: undefined, max: pageDefault, keep });
    return items.map((device) => deviceJson(account, device));
  };
  const mayReadAll =
    (await ownRefusal(outer, call.caller, { action: 'iam:ListVirtualMFADevices', resource: '*' })) ===
    undefined;
  return jsonReply({
    mfaDevices: await read((device) => device.user === (user?.id ?? '')),
    ...(mayReadAll ? { unassigned: await read((device) => device.user === undefined) } : {}),
  });
};

export const CreateOwnMfaDevice: AdminHandler<'CreateOwnMfaDevice'> = async (outer, call) => {
  const { ctx, account, assertAllowed } = openOwn(outer, call);
  const { name } = call.body;
  const arn = deviceArn(account, { name, path: '/' });
  call.record?.about(arn);
  await assertAllowed('iam:CreateVirtualMFADevice', arn);
  return createReply(ctx, account, name);
};

export const EnableOwnMfaDevice: AdminHandler<'EnableOwnMfaDevice'> = async (outer, call) => {
  const { ctx, account, holder, assertAllowed } = openOwn(outer, call);
  await assertAllowed('iam:EnableMFADevice');
  const device = await getDevice(ctx, account, nameIn(call, 'device'));
  const { code1, code2 } = call.body;
  await enableDevice(ctx, account, { device, holder, codes: [code1, code2] });
  return emptyReply(204);
};

export const ResyncOwnMfaDevice: AdminHandler<'ResyncOwnMfaDevice'> = async (outer, call) => {
  const { ctx, account, holder, assertAllowed } = openOwn(outer, call);
  await assertAllowed('iam:ResyncMFADevice');
  const device = await getDevice(ctx, account, nameIn(call, 'device'));
  const { code1, code2 } = call.body;
  await resyncDevice(ctx, account, { device, holder, codes: [code1, code2] });
  return emptyReply(204);
};

/** Both permissions are checked before the first step, so that a device is not left half deleted. */
export const DeleteOwnMfaDevice: AdminHandler<'DeleteOwnMfaDevice'> = async (outer, call) => {
  const { ctx, account, holder, assertAllowed } = openOwn(outer, call);
  const name = nameIn(call, 'device');
  const found = await findDevice(ctx, account, name);
  await assertAllowed('iam:DeleteVirtualMFADevice', deviceArn(account, found ?? { name, path: '/' }));
  const device = found ?? (await getDevice(ctx, account, name));
  if (device.user !== undefined) {
    await assertAllowed('iam:DeactivateMFADevice');
    await deactivateDevice(ctx, account, { device, holder });
  }
  await deleteDevice(ctx, account, device);
  return emptyReply(204);
};
