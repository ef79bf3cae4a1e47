/** Verifies that the caller has sent a code of an MFA device of its own (public API "MFA delete", STS). A code is valid once. */
import { isCode } from '../../domain/iam/mfa.ts';
import { parseArn } from '../../protocol/arns.ts';
import type { Identity } from '../identity.ts';

type CodeContext = Parameters<typeof isCode>[0];

export interface MfaCode {
  /** The ARN of the device. */
  readonly serial: string;
  readonly code: string;
}

/** A user's devices are under its id, the root's under none; roles and configured users have none. */
function findMfaHolder(identity: NonNullable<Identity>): string | undefined {
  if (identity.root) return '';
  return identity.caller?.kind === 'user' ? identity.iam?.id : undefined;
}

export async function verifyMfa(
  ctx: CodeContext,
  identity: Identity,
  { serial, code }: MfaCode,
): Promise<boolean> {
  const holder = identity === undefined ? undefined : findMfaHolder(identity);
  const device = parseArn(serial);
  if (identity === undefined || holder === undefined || device === undefined) return false;
  if (device.kind !== 'mfa' || device.account !== identity.owner || !/^\d{6}$/.test(code)) return false;
  return isCode(ctx, identity.owner, { holder, device, code });
}

/** @param header `<serial> <code>`, as the storage protocol's header carries them */
export function verifyMfaHeader(ctx: CodeContext, identity: Identity, header: string): Promise<boolean> {
  const at = header.trim().lastIndexOf(' ');
  const serial = header.trim().slice(0, Math.max(at, 0));
  return verifyMfa(ctx, identity, { serial, code: header.trim().slice(at + 1) });
}
