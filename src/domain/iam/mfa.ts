/** Virtual MFA devices of users and of the account's root, and the codes that they show. */

import { fail, type Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { commitIam, type DeviceRecord, findIam, toRecord } from '../../metadata/iam.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import { type AccountDraft, type Ctx, changeAccount } from './account.ts';
import { findById, foldName, namedIn, type Page, putEntity, readRecordPage } from './entities.ts';

type CodeCtx = Ctx & Pick<Context, 'sealer' | 'hasher'>;

const devicesOfUserMax = 8;
/** The largest error of a device's clock, in steps, when the device is enabled and when a code is verified. */
const enableDrift = 2;
const codeDrift = 1;
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
  if (seed === undefined) throw new Error(`the seed of MFA device ${device.name} does not open`);
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

export const deactivateDevice = (
  ctx: Ctx,
  account: string,
  { device: named, holder }: Omit<Enabling, 'codes'>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const { user: id, enabled: _, ...device } = await deviceIn(draft, named);
    const user = holder === 'root' ? undefined : await namedIn(draft, { kind: 'user', name: holder.user });
    if (id === undefined || id !== (user?.id ?? '')) throw noSuchDevice(named);
    await draft.put('device', foldName(named.name), device);
    await draft.remove('deviceUse', foldName(named.name));
    if (user !== undefined) {
      const devices = user.devices.filter((name) => name !== device.name);
      await putEntity(draft, 'user', { ...user, devices });
    }
    draft.note({ before: { devices: { [device.name]: 'enabled' } } });
  });

/** @throws DeleteConflict while it is enabled */
export const deleteDevice = (ctx: Ctx, account: string, named: DeviceName): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const device = await deviceIn(draft, named);
    if (device.user !== undefined)
      throw fail('DeleteConflict', 'MFA VirtualDevice in use. Must deactivate first.');
    draft.count('devices', -1);
    await draft.remove('device', foldName(named.name));
  });

/** Devices ordered by name, filtered by `keep`. */
export const listDevices = async (
  ctx: Pick<Ctx, 'metadata'>,
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
export const userOfDevice = async (ctx: Pick<Ctx, 'metadata'>, account: string, { user }: DeviceRecord) =>
  user === undefined || user === '' ? undefined : findById(ctx, account, { kind: 'user', id: user });

interface ShownCode {
  /** The required holder: the id of a user, '' for the account's root. */
  readonly holder: string;
  readonly device: DeviceName;
  readonly code: string;
}

/** Whether the code is valid now and was not used before. */
export async function isCode(ctx: CodeCtx, account: string, shown: ShownCode): Promise<boolean> {
  const { holder, device: named, code } = shown;
  const stored = await findIam(ctx.metadata, account, { kind: 'device', name: foldName(named.name) });
  const device = stored === undefined ? undefined : toRecord<'device'>(stored).value;
  if (device?.name !== named.name || device.path !== named.path || device.user !== holder) return false;
  const seed = await openSeed(ctx, account, device);
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findIam(ctx.metadata, account, { kind: 'deviceUse', name: foldName(named.name) });
    if (found === undefined) return false;
    const use = toRecord<'deviceUse'>(found).value;
    const now = ctx.clock.now();
    const isPaused = use.failures >= failuresMax && now - use.since < pauseMs;
    if (isPaused) return false;
    const step = matchCodes(ctx.hasher, seed, { codes: [code], drift: codeDrift, now, after: use.step });
    const failures = use.failures >= failuresMax ? 1 : use.failures + 1;
    const next =
      step === undefined ? { step: use.step, failures, since: now } : { step, failures: 0, since: 0 };
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

interface Shown {
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
  { codes, drift, now, after }: Shown,
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
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += letters[(held >>> (bits - 5)) & 31];
    held &= (1 << bits) - 1;
  }
  return text;
}
