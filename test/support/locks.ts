/** Bodies, headers and worlds that the suites about Object Lock share. */
import type { Backend, GatewayWorld, GatewayWorldOptions } from './gateway.ts';
import { openGateway } from './gateway.ts';
import type { Answer, Client } from './gateway-client.ts';
import { type VirtualClock, virtualClock } from './virtual-clock.ts';

export const dayMs = 24 * 60 * 60 * 1000;
export type Mode = 'GOVERNANCE' | 'COMPLIANCE';

export const configuration = (rule = ''): string =>
  `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${rule}</ObjectLockConfiguration>`;
export const defaultRule = (mode: string, period: string): string =>
  `<Rule><DefaultRetention><Mode>${mode}</Mode>${period}</DefaultRetention></Rule>`;
export const retention = (mode?: string, until?: number | string): string =>
  mode === undefined
    ? '<Retention/>'
    : `<Retention><Mode>${mode}</Mode><RetainUntilDate>${typeof until === 'string' ? until : new Date(until ?? 0).toISOString()}</RetainUntilDate></Retention>`;
export const legalHold = (status: string): string => `<LegalHold><Status>${status}</Status></LegalHold>`;
export const bypass = { '*-bypass-governance-retention': 'true' };

export interface LockedWorld extends GatewayWorld {
  readonly clock: VirtualClock;
  /** The time so many days from now. */
  inDays(days: number): number;
}

/** A gateway with a test clock and `/bucket`, which has Object Lock. */
export async function openLocked(
  backend: Backend = 'memory',
  options: GatewayWorldOptions = {},
): Promise<LockedWorld> {
  const clock = virtualClock();
  const world = await openGateway({ ...options, backend, clock });
  await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  return Object.assign(world, { clock, inDays: (days: number) => clock.now() + days * dayMs });
}

/** Headers of a write that sets a retention. */
export const heldUntil = (mode: string, until: number): Record<string, string> => ({
  '*-object-lock-mode': mode,
  '*-object-lock-retain-until-date': new Date(until).toISOString(),
});

/** Puts a version and returns its id. */
export async function putVersion(
  client: Client,
  path: string,
  headers: Record<string, string> = {},
): Promise<string> {
  const put = await client.put(path, { body: 'content', headers });
  if (put.status !== 200) throw new Error(`no version: ${put.text}`);
  return put.header('*-version-id') ?? '';
}

/** The lock headers of a read. */
export const lockIn = (answer: Answer): (string | undefined)[] =>
  ['mode', 'retain-until-date', 'legal-hold'].map((name) => answer.header(`*-object-lock-${name}`));
