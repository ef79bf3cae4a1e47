/** Virtual MFA devices of users and of the account's root, and the codes that they show. */

import { fail, type Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  commitIam,
  type DeviceRecord,
  type DeviceUse,
  findIam,
  toRecord,
  type UserRecord,
} from '../../metadata/iam.ts';
import { type Hasher, SecretUnreadable } from '../../ports/cryptography.ts';
import { type AccountCtx, type AccountDraft, changeAccount } from './account.ts';
import { findById, foldName, namedIn, type Page, putEntity, readRecordPage } from './entities.ts';

type CodeCtx = AccountCtx & Pick<Context, 'sealer' | 'hasher'>;

const devicesOfUserMax = 8;
/** The largest error of a device's clock, in steps, when the device is enabled, when a code is verified, and when it is resynchronized. */
const enableDrift = 2;
const codeDrift = 1;
const resyncDrift = 20;
/** After this many wrong codes all codes are refused for `pauseMs`, because six digits can be guessed. */
const failuresMax = 5;
const pauseMs = 5 * 60 * 1000;
const attemptsMax = 8;

/** The parts of its serial number. */
export interface DeviceName {
  readonly name: string;
  readonly path: string;
}
/** The holder of a device: a user, by name, or the account's root. */
export type DeviceHolder = { readonly user: string } | 'root';

const mutexKey = (account: string, name: string): string => `mfa device ${account} ${foldName(name)}`;
const noSuchDevice = ({ name }: DeviceName): Refusal =>
  fail('NoSuchEntity', `VirtualMFADevice with serial number ${name} does not exist.`);
const wrongCode = (): Refusal =>
  fail('InvalidAuthenticationCode', 'Authentication code for device is not valid');

export const createDevice = async (
  ctx: CodeCtx,
  account: string,
  named: DeviceName,
): Promise<{ readonly device: DeviceRecord; readonly seed: Uint8Array }> => {
  const { name, path } = named;
  const seed = ctx.random.bytes(seedBytes);
  const sealed = btoa(String.fromCharCode(...(await ctx.sealer.seal(seed, mutexKey(account, name)))));
  return changeAccount(ctx, account, async (draft) => {
    if ((await draft.find('device', foldName(name))) !== undefined)
      throw fail('EntityAlreadyExists', `MFADevice entity at the same path and name already exists.`);
    const device: DeviceRecord = { name, path, seed: sealed, created: ctx.clock.now() };
    draft.count('devices', 1);
    await draft.put('device', foldName(name), device);
    draft.note({ after: { devices: { [name]: 'created' } } });
    return { device, seed };
  });
};

async function deviceIn(draft: AccountDraft, named: DeviceName): Promise<DeviceRecord> {
  const device = (await draft.find('device', foldName(named.name)))?.value;
  if (device?.name !== named.name || device.path !== named.path) throw noSuchDevice(named);
  return device;
}

async function openSeed({ sealer }: Pick<CodeCtx, 'sealer'>, account: string, device: DeviceRecord) {
  const sealed = Uint8Array.from(atob(device.seed), (char) => char.charCodeAt(0));
  const seed = await sealer.open(sealed, mutexKey(account, device.name));
  if (seed === undefined)
    throw new SecretUnreadable(`the seed of MFA device ${device.name} does not open under any master key`);
  return seed;
}

interface Enabling {
  readonly device: DeviceName;
  readonly holder: DeviceHolder;
  /** Two consecutive codes of the device. */
  readonly codes: readonly [string, string];
}

/** @throws InvalidAuthenticationCode, EntityAlreadyExists, LimitExceeded */
export const enableDevice = (
  ctx: CodeCtx,
  account: string,
  { device: named, holder, codes }: Enabling,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const device = await deviceIn(draft, named);
    if (device.user !== undefined) throw fail('EntityAlreadyExists', 'MFA Device is already in use.');
    const user = holder === 'root' ? undefined : await namedIn(draft, { kind: 'user', name: holder.user });
    if (user !== undefined && user.devices.length >= devicesOfUserMax)
      throw fail('LimitExceeded', `Cannot exceed quota for MFADevicesPerUser: ${devicesOfUserMax}`);
    const now = ctx.clock.now();
    const seed = await openSeed(ctx, account, device);
    const step = matchCodes(ctx.hasher, seed, { codes, drift: enableDrift, now, after: 0 });
    if (step === undefined) throw wrongCode();
    await draft.put('device', foldName(named.name), { ...device, user: user?.id ?? '', enabled: now });
    await draft.put('deviceUse', foldName(named.name), { step, failures: 0, since: 0 });
    if (user !== undefined)
      await putEntity(draft, 'user', { ...user, devices: [...user.devices, device.name] });
    draft.note({ after: { devices: { [device.name]: 'enabled' } } });
  });

/** @throws NoSuchEntity for a device of another holder, or of none */
async function assertHolder(
  draft: AccountDraft,
  named: DeviceName,
  { device, holder }: { readonly device: DeviceRecord; readonly holder: DeviceHolder },
): Promise<UserRecord | undefined> {
  const user = holder === 'root' ? undefined : await namedIn(draft, { kind: 'user', name: holder.user });
  if (device.user === undefined || device.user !== (user?.id ?? '')) throw noSuchDevice(named);
  return user;
}

export const deactivateDevice = (
  ctx: AccountCtx,
  account: string,
  { device: named, holder }: Omit<Enabling, 'codes'>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const found = await deviceIn(draft, named);
    const user = await assertHolder(draft, named, { device: found, holder });
    const { user: _holder, enabled: _enabled, ...device } = found;
    await draft.put('device', foldName(named.name), device);
    await draft.remove('deviceUse', foldName(named.name));
    if (user !== undefined) {
      const devices = user.devices.filter((name) => name !== device.name);
      await putEntity(draft, 'user', { ...user, devices });
    }
    draft.note({ before: { devices: { [device.name]: 'enabled' } } });
  });

/**
 * Measures how far the clock of an enabled device is off, so that its codes are valid again. Codes that are not later than the last
 * accepted one do not count.
 * @throws InvalidAuthenticationCode, which counts as a wrong code
 */
export async function resyncDevice(
  ctx: CodeCtx,
  account: string,
  { device: named, holder, codes }: Enabling,
): Promise<void> {
  const isDone = await changeAccount(ctx, account, async (draft) => {
    const device = await deviceIn(draft, named);
    await assertHolder(draft, named, { device, holder });
    const use = (await draft.find('deviceUse', foldName(named.name)))?.value;
    const now = ctx.clock.now();
    if (use === undefined || isPaused(use, now)) throw wrongCode();
    const seed = await openSeed(ctx, account, device);
    const step = matchCodes(ctx.hasher, seed, { codes, drift: resyncDrift, now, after: use.step });
    if (step === undefined) return false;
    const ahead = step - stepAt(now);
    await draft.put('deviceUse', foldName(named.name), { step, failures: 0, since: 0, ahead });
    draft.note({ after: { devices: { [device.name]: 'resynchronized' } } });
    return true;
  });
  if (isDone) return;
  await verifyUse(ctx, account, named, () => undefined);
  throw wrongCode();
}

/** @throws DeleteConflict while it is enabled */
export const deleteDevice = (ctx: AccountCtx, account: string, named: DeviceName): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const device = await deviceIn(draft, named);
    if (device.user !== undefined)
      throw fail('DeleteConflict', 'MFA VirtualDevice in use. Must deactivate first.');
    draft.count('devices', -1);
    await draft.remove('device', foldName(named.name));
    draft.note({ before: { devices: { [named.name]: 'created' } } });
  });

/** The device of exactly this name. */
export async function findDevice(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  name: string,
): Promise<DeviceRecord | undefined> {
  const stored = await findIam(metadata, account, { kind: 'device', name: foldName(name) });
  const device = stored === undefined ? undefined : toRecord<'device'>(stored).value;
  return device?.name === name ? device : undefined;
}

/** @throws NoSuchEntity */
export async function getDevice(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  name: string,
): Promise<DeviceRecord> {
  const device = await findDevice(ctx, account, name);
  if (device === undefined) throw fail('NoSuchEntity', `There is no MFA device ${name}.`);
  return device;
}

/** Devices ordered by name, filtered by `keep`. */
export const listDevices = async (
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  {
    keep,
    ...page
  }: {
    readonly after: string | undefined;
    readonly max: number;
    readonly keep: (device: DeviceRecord) => boolean;
  },
): Promise<Page<DeviceRecord>> => {
  const asked = {
    kind: 'device',
    ...page,
    keep: ({ value }: { value: DeviceRecord }) => keep(value),
  } as const;
  const { items, ...end } = await readRecordPage(ctx, account, asked);
  return { ...end, items: items.map(({ value }) => value) };
};

/** The user of an enabled device; undefined for a device of the root. */
export const userOfDevice = async (
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  { user }: DeviceRecord,
) => (user === undefined || user === '' ? undefined : findById(ctx, account, { kind: 'user', id: user }));

interface MfaCode {
  /** The required holder: the id of a user, '' for the account's root. */
  readonly holder: string;
  readonly device: DeviceName;
  readonly code: string;
}

/** Whether the code is valid now and was not used before. */
export async function isCode(ctx: CodeCtx, account: string, claimed: MfaCode): Promise<boolean> {
  const { holder, device: named, code } = claimed;
  const device = await findDevice(ctx, account, named.name);
  if (device?.path !== named.path || device.user !== holder) return false;
  const seed = await openSeed(ctx, account, device);
  return verifyUse(ctx, account, named, (use, now) => {
    const match = (at: number) =>
      matchCodes(ctx.hasher, seed, { codes: [code], drift: codeDrift, now: at, after: use.step });
    const { ahead = 0 } = use;
    // A device that was resynchronized may have been set right since.
    return ahead === 0 ? match(now) : (match(now + ahead * stepMs) ?? match(now));
  });
}

const isPaused = ({ failures, since }: DeviceUse, now: number): boolean =>
  failures >= failuresMax && now - since < pauseMs;

/**
 * Counts a code. @param match gives the step of the code, undefined where it is wrong
 * @returns whether it was right, and this call is the one that has used it
 */
async function verifyUse(
  ctx: Pick<CodeCtx, 'metadata' | 'clock'>,
  account: string,
  { name }: DeviceName,
  match: (use: DeviceUse, now: number) => number | undefined,
): Promise<boolean> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findIam(ctx.metadata, account, { kind: 'deviceUse', name: foldName(name) });
    if (found === undefined) return false;
    const use = toRecord<'deviceUse'>(found).value;
    const now = ctx.clock.now();
    if (isPaused(use, now)) return false;
    const step = match(use, now);
    const failures = use.failures >= failuresMax ? 1 : use.failures + 1;
    const next =
      step === undefined ? { ...use, failures, since: now } : { ...use, step, failures: 0, since: 0 };
    // The account's own record is not written, because a used code changes nothing that is cached.
    const outcome = await commitIam(ctx.metadata, account, {
      changes: [{ put: { ...found.row, value: next }, expect: found.revision }],
      then: [],
    });
    if (outcome.applied) return step !== undefined;
  }
  return false;
}

// One-time codes of virtual MFA devices (RFC 6238: SHA-1, 30 seconds and six digits, as authenticator apps use).

const stepMs = 30_000;
const seedBytes = 20;

export const stepAt = (now: number): number => Math.floor(now / stepMs);

/** RFC 4226, section 5.3. */
export function codeAt(hasher: Pick<Hasher, 'hmacSha1'>, seed: Uint8Array, step: number): string {
  const counter = new Uint8Array(8);
  new DataView(counter.buffer).setBigUint64(0, BigInt(step));
  const mac = hasher.hmacSha1(seed, counter);
  const at = (mac.at(-1) ?? 0) & 0x0f;
  const truncated = new DataView(mac.buffer, mac.byteOffset + at, 4).getUint32(0) & 0x7fff_ffff;
  return String(truncated % 1_000_000).padStart(6, '0');
}

interface Displayed {
  /** One code, or codes of consecutive steps. */
  readonly codes: readonly string[];
  /** How many steps the device's clock may be off in each direction. */
  readonly drift: number;
  readonly now: number;
  /** The step of the last accepted code. That code and all earlier ones are no longer valid. */
  readonly after: number;
}

/** The step of the last code; undefined when the codes do not match. */
export function matchCodes(
  hasher: Pick<Hasher, 'hmacSha1'>,
  seed: Uint8Array,
  { codes, drift, now, after }: Displayed,
): number | undefined {
  const current = stepAt(now);
  let found: number | undefined;
  // Compute all of them, even after a match, so that the time taken reveals nothing.
  for (let last = current - drift; last <= current + drift; last += 1) {
    const first = last - codes.length + 1;
    const isGood = codes
      .map((code, index) => codeAt(hasher, seed, first + index) === code)
      .every((isSame) => isSame);
    if (isGood && first > after) found = last;
  }
  return found;
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Base32 of RFC 4648 without padding, for lengths that are multiples of five bits. */
export function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let pendingBits = 0;
  for (const byte of bytes) {
    pendingBits = (pendingBits << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += letters[(pendingBits >>> (bits - 5)) & 31];
    pendingBits &= (1 << bits) - 1;
  }
  return text;
}
