/**
 * Who may work on what (spec item 12): leases that expire by the store's clock, each hand-over a new generation.
 *
 * A lease saves work; it guards nothing. A holder that was stopped and goes on beside its successor does no
 * harm, and must not: whatever a worker does is safe to do twice, and every commit states what it expects.
 */
import type { At, MetadataStore, Revision } from '../ports/metadata-store.ts';
import { type LeaseRow, leases } from './lease-table.ts';

type Metadata = Pick<MetadataStore, 'get' | 'commit' | 'now'>;

/** A lease in hand. It is only as good as its `expires`: a holder renews it well before, or stops. */
export interface Lease {
  readonly name: string;
  readonly holder: string;
  /** Greater than that of every earlier holder: logs tell by it who was whose successor. No commit checks it. */
  readonly generation: number;
  /** Store time. */
  readonly expires: number;
  readonly revision: Revision;
}

export const leaderLease = (worker: string): string => `${worker}-leader`;
export const slotLease = (worker: string, slot: number): string => `${worker}-${slot}`;

const leaseAt = (name: string): At<typeof leases> => ({ table: leases, in: { name } });

async function put(
  metadata: Metadata,
  row: LeaseRow,
  expect: 'absent' | Revision,
): Promise<Lease | undefined> {
  const outcome = await metadata.commit(leaseAt(row.name), [{ put: row, expect }]);
  return outcome.applied ? { ...row, revision: outcome.revision } : undefined;
}

/**
 * Takes a lease that is free or has expired; undefined when another holder has it, or was faster.
 * The row stays when a lease ends, so that the generation never starts again.
 */
export async function acquireLease(
  metadata: Metadata,
  wanted: { readonly name: string; readonly holder: string; readonly ttlMs: number },
): Promise<Lease | undefined> {
  const { name, holder, ttlMs } = wanted;
  const [found, now] = await Promise.all([metadata.get(leaseAt(name), {}), metadata.now()]);
  if (found !== undefined && found.row.expires > now) return undefined;
  const generation = (found?.row.generation ?? 0) + 1;
  return put(metadata, { name, holder, generation, expires: now + ttlMs }, found?.revision ?? 'absent');
}

/** Prolongs a lease; undefined says that it is lost. An expired one is renewed as long as nobody took it. */
export async function renewLease(
  metadata: Metadata,
  lease: Lease,
  ttlMs: number,
): Promise<Lease | undefined> {
  const { revision, ...row } = lease;
  return put(metadata, { ...row, expires: (await metadata.now()) + ttlMs }, revision);
}

/** Gives a lease back, so that the next holder need not wait; a lost one is left alone. */
export async function releaseLease(metadata: Metadata, lease: Lease): Promise<void> {
  const { revision, ...row } = lease;
  await put(metadata, { ...row, expires: 0 }, revision);
}
