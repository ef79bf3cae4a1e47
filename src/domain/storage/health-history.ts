/**
 * The health of storage over the last day: an entry for each change of the state or of the set of warnings. One row holds them, so it is
 * kept over restarts, and is written only when something has changed.
 */
import type { Context } from '../../context.ts';
import {
  assertLeads,
  beginTerm,
  findTask,
  putTask,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import { probeStorage, type StorageHealth } from './storage-health.ts';

export interface HealthChange {
  /** Store time (ms). */
  readonly at: number;
  readonly ok: boolean;
  readonly source: string;
  readonly warnings: readonly string[];
  /** Warnings beyond those that an entry keeps. */
  readonly more?: number;
}

export interface HealthHistory {
  /** The oldest first. The first one may be older than a day: it was in force when the day began. */
  readonly changes: readonly HealthChange[];
  /** Older changes of the day were left out, because there were too many. */
  readonly isCut?: true;
}

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'config'>;

const histories: TaskKind<HealthHistory> = { kind: 'health-history' };

export const historyMs = 24 * 3_600_000;
/** An entry for each ten minutes; a state that changes more often loses its oldest changes. */
const changesMax = 144;
/** Together with `changesMax`: the row stays below 150 KiB. */
const warningsMax = 5;
const warningMax = 200;

export const beginHistory = ({ metadata }: Pick<Ctx, 'metadata'>, generation: number): Promise<Term> =>
  beginTerm(metadata, histories, generation);

/** Warnings differ where their words do: a count that moves is no change. */
const signatureOf = ({ ok, source, warnings }: Pick<StorageHealth, 'ok' | 'source' | 'warnings'>): string =>
  JSON.stringify([
    ok,
    source,
    [...new Set(warnings.map((text) => text.replace(/\d+(?:\.\d+)?/g, '#')))].sort(),
  ]);

/**
 * Probes storage, and adds an entry where its health has changed.
 * @returns whether it has changed
 * @throws LeaseLost when a later leader has begun
 */
export async function recordHealth(ctx: Ctx, term: Term): Promise<boolean> {
  const health = await probeStorage(ctx);
  const found = await findTask(ctx.metadata, histories, '');
  const changes = found?.state.changes ?? [];
  const last = changes.at(-1);
  const now = describe(health, await ctx.metadata.now());
  if (last !== undefined && signatureOf(last) === signatureOf(now) && (last.more ?? 0) === (now.more ?? 0))
    return false;
  const state = prune({ ...found?.state, changes: [...changes, now] }, now.at);
  const expect = found?.revision ?? 'absent';
  const outcome = await putTask(ctx.metadata, histories, { name: '', state, expect, term });
  if (!outcome.applied) await assertLeads(ctx.metadata, histories, term);
  return true;
}

function describe({ ok, source, warnings }: StorageHealth, at: number): HealthChange {
  const more = warnings.length - warningsMax;
  const retained = warnings.slice(0, warningsMax).map((text) => text.slice(0, warningMax));
  return { at, ok, source, warnings: retained, ...(more > 0 ? { more } : {}) };
}

/** Without what ended before the day, and bounded. */
function prune({ changes, isCut }: HealthHistory, now: number): HealthHistory {
  const begin = now - historyMs;
  const first = Math.max(
    0,
    changes.findLastIndex(({ at }) => at <= begin),
  );
  const ofDay = changes.slice(first);
  const retained = ofDay.slice(-changesMax);
  const wasCut = isCut === true && first === 0;
  return { changes: retained, ...(wasCut || retained.length < ofDay.length ? { isCut: true } : {}) };
}

/** The changes of the last day; undefined before the first probe. */
export async function readHealthHistory({
  metadata,
}: Pick<Ctx, 'metadata'>): Promise<(HealthHistory & { readonly now: number }) | undefined> {
  const now = await metadata.now();
  const found = await findTask(metadata, histories, '');
  return found === undefined ? undefined : { ...prune(found.state, now), now };
}
