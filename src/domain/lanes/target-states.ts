/**
 * What a worker remembers about the targets of a queue: which of them rest after failures, and for how long. An object
 * rests when the target refuses its row. Its tenant rests when many of its objects were refused one after the other,
 * its account when several of its tenants had to rest, and the target when its connection fails or when several
 * accounts had to rest; where there is one account, when several tenants had to. A success ends the rests of the
 * tenant, the account and the target. After a rest of the target any answer proves that it is there, also a refusal,
 * which then counts for the object, the tenant and the account only.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { fnv32a } from '../../base/shard.ts';
import {
  everyTask,
  findSoundTask,
  putTask,
  putTasks,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import type { Clock } from '../../ports/clock.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';
import { type Refused, RefusedObjects } from './refused-objects.ts';

/** What a row is about. */
export interface Subject {
  readonly target: string;
  /** The bucket that the row belongs to. */
  readonly tenant: string;
  /** The account whose share of memory its refused objects take; '' where unknown. */
  readonly owner: string;
  /** The account of the tenant, where accounts rest. */
  readonly account?: string | undefined;
  /** Rows of one object are delivered in their order. Unique among all targets and tenants. */
  readonly object: string;
}

/** A short name of an object. Where two objects share one, the rows of either wait for those of the other. */
export const nameObject = (target: string, tenant: string, key: string): string =>
  `${target} ${tenant} ${fnv32a(key).toString(36)}`;

/** Whose deliveries take turns at a target: those of an account, or of a bucket where the queue names no account. */
export const senderAt = ({ account, tenant }: Subject): string => account ?? tenant;

export const nameSender = (subject: Subject): string => `${subject.target} ${senderAt(subject)}`;

const nameAccount = ({ target, account = '' }: Subject): string => `${target} ${account}`;

interface TargetState {
  /** Failed rows since the last delivery; retries of the same object are not counted again. */
  readonly failures: number;
  /** The error of the last one; '' after a delivery. */
  readonly error: string;
  /** How often in a row the target has rested as a whole. */
  readonly rests: number;
  /** By the monotonic clock. */
  readonly restsUntil: number;
}

export type RefusedHow =
  /** The target does not take the row; that may be about the row, or about everything. */
  | 'refused'
  /** The target is there, and refuses this row only. It fails after many refusals in a row. */
  | 'reached'
  /** The connection was lost, so the target may be away. */
  | 'unanswered'
  /** The row cannot be read, or given up, here, which says nothing about the target. */
  | 'own-fault';

interface TenantState {
  /** Refusals in a row. */
  readonly refusals: number;
  readonly rests: number;
  readonly restsUntil: number;
}

interface AccountState {
  readonly rests: number;
  readonly restsUntil: number;
}

const never = Number.NEGATIVE_INFINITY;
const fresh: TargetState = { failures: 0, error: '', rests: 0, restsUntil: never };
const freshTenant: TenantState = { refusals: 0, rests: 0, restsUntil: never };
const freshAccount: AccountState = { rests: 0, restsUntil: never };

const pauseFirstMs = 1_000;
const pauseMaxMs = 60_000;
/** The longest rest of a tenant whose target was probed, and answered. */
const pauseProbedMs = 2_000;
/** Failures within some 20 seconds, by the pauses. */
const steadyFailures = 5;
/** Refusals in a row after which a tenant rests: more than a few bad objects, few enough for a target that is down. */
const refusalsMax = 16;
/** Attempts of a tenant after each rest, which may be about other objects. */
const probesMax = 4;
/** Tenants of an account, or accounts, that begin to rest without a success in between: then the account, or the target, rests. */
const restingMax = 2;
/** A destination of replication is a target too, and tenants choose these. One that is forgotten is tried again without a rest. */
const targetsMax = 16_384;
const knownTenantsMax = 10_000;
const knownAccountsMax = 1_000;
const errorMax = 300;

export class TargetStates {
  readonly #ctx: { readonly clock: Pick<Clock, 'elapsed'>; readonly random: Random };
  readonly #targets = new BoundedCache<TargetState>({ name: 'delivery-targets', entriesMax: targetsMax });
  readonly #tenants = new BoundedCache<TenantState>({
    name: 'delivery-tenants',
    entriesMax: knownTenantsMax,
  });
  readonly #objects = new RefusedObjects();
  readonly #accounts = new BoundedCache<AccountState>({
    name: 'delivery-accounts',
    entriesMax: knownTenantsMax,
  });
  /** Tenants of an account, or of a target where there is one account, that began to rest since the last success. */
  readonly #restingTenants = new BoundedCache<ReadonlySet<string>>({
    name: 'delivery-resting-tenants',
    entriesMax: knownTenantsMax,
  });
  /** Accounts that began to rest since the last success of the target. Their refusals say nothing new about it. */
  readonly #restingAccounts = new Map<string, Set<string>>();
  /** Targets that have taken something: a former worker may have left a failure of another one. */
  readonly #succeeded = new Set<string>();
  /** Targets whose state is to be stored. */
  readonly #changed = new Set<string>();

  constructor(ctx: { readonly clock: Pick<Clock, 'elapsed'>; readonly random: Random }) {
    this.#ctx = ctx;
  }

  /** What a former leader has stored of a target. */
  restore(target: string, { failures, error }: Pick<TargetState, 'failures' | 'error'>): void {
    if (!this.#succeeded.has(target)) this.#targets.set(target, { ...this.get(target), failures, error });
  }

  get(target: string): TargetState {
    return this.#targets.get(target) ?? fresh;
  }

  isResting(target: string): boolean {
    return this.get(target).restsUntil > this.#ctx.clock.elapsed();
  }

  /** Whether its tenant rests, or the account of that. */
  isTenantResting(subject: Subject): boolean {
    const now = this.#ctx.clock.elapsed();
    return this.#tenant(subject).restsUntil > now || this.#account(subject).restsUntil > now;
  }

  isObjectResting({ object }: Subject): boolean {
    return (this.#objects.get(object)?.restsUntil ?? never) > this.#ctx.clock.elapsed();
  }

  /** Whether the target has rested as a whole, and has answered nothing since. */
  isDoubtful(target: string): boolean {
    return this.get(target).rests > 0;
  }

  /**
   * Whether old rows may be given up without another attempt, because their target or tenant has failed often enough.
   * After a long stop of all gateways every row is old, and one failure of a target that comes up at the same time says
   * little.
   */
  failsSteadily(subject: Subject): boolean {
    const { target } = subject;
    return (
      (this.isResting(target) && this.get(target).rests >= steadyFailures) ||
      (this.isTenantResting(subject) &&
        Math.max(this.#tenant(subject).rests, this.#account(subject).rests) >= steadyFailures)
    );
  }

  /** Whether an old row that has just been refused may be given up. */
  isRefusedSteadily(subject: Subject): boolean {
    return (
      (this.#objects.get(subject.object)?.failures ?? 0) >= steadyFailures || this.failsSteadily(subject)
    );
  }

  /** For the record of a row that is given up. */
  lastFailure({ target, object }: Subject): { readonly error: string; readonly attempts: number } {
    const own = this.#objects.get(object);
    const { error, rests } = this.get(target);
    return own === undefined ? { error, attempts: rests } : { error: own.error, attempts: own.failures };
  }

  /** When the object, or its tenant or target, may be tried again, by the monotonic clock. */
  restsUntil(subject: Subject): number {
    return Math.max(
      this.get(subject.target).restsUntil,
      this.#tenant(subject).restsUntil,
      this.#account(subject).restsUntil,
      this.#objects.get(subject.object)?.restsUntil ?? never,
    );
  }

  /** The target takes nothing: it rests for a doubling time, spread over the second half of it. */
  unavailable(target: string, error: string): void {
    // Deliveries that ran at the same time failed for the same cause, which counts once.
    if (this.isResting(target)) return;
    const { failures, rests } = this.get(target);
    this.#set(target, {
      failures: failures + 1,
      error: error.slice(0, errorMax),
      rests: rests + 1,
      restsUntil: this.#pause(rests, pauseMaxMs),
    });
  }

  /** The target answers again after a rest: it is there. Answers to rows that were on their way when the rest began prove nothing. */
  answered(target: string): void {
    if (this.isDoubtful(target) && !this.isResting(target))
      this.#set(target, { ...this.get(target), rests: 0, restsUntil: never });
  }

  /**
   * The row of an object was refused: it rests for a doubling time.
   * @returns whether its tenant begins to rest
   */
  refused(subject: Subject, error: string, how: RefusedHow = 'refused'): boolean {
    const { target, object } = subject;
    const known = this.#objects.get(object);
    const failures = (known?.failures ?? 0) + 1;
    this.#objects.set(subject, {
      failures,
      error: error.slice(0, errorMax),
      restsUntil: this.#pause(failures - 1, pauseMaxMs),
    });
    this.#changed.add(target);
    if (how === 'own-fault') return false;
    if (how !== 'unanswered') this.answered(target);
    // Each attempt may take as long as the time-out, and only one slot is tried: so the first row of each tenant decides.
    const isDecisive = how === 'unanswered' && this.isDoubtful(target);
    const tenant = this.#tenant(subject);
    const isResting = tenant.rests > 0 || this.#account(subject).rests > 0;
    if (known !== undefined && !isResting && !isDecisive) return false;
    if (known === undefined && how !== 'reached') this.#countFailure(target, error);
    if (this.#account(subject).rests > 0) this.#accountRests(subject, error);
    if (this.isTenantResting(subject)) return false;
    if (!isDecisive && tenant.refusals + 1 < refusalsMax) {
      this.#setTenant(subject, { ...tenant, refusals: tenant.refusals + 1 });
      return false;
    }
    this.#setTenant(subject, {
      refusals: refusalsMax - probesMax,
      rests: tenant.rests + 1,
      restsUntil: this.#pause(tenant.rests, pauseMaxMs),
    });
    if (how === 'reached') this.#countFailure(target, error);
    if (tenant.rests === 0) this.#tenantRests(subject, error);
    return true;
  }

  /** A probe of the target has succeeded: the tenant rests for a short time only, and then a larger share of its objects is tried. */
  probed(subject: Subject): void {
    const { rests, restsUntil } = this.#tenant(subject);
    this.#accounts.delete(nameAccount(subject));
    const until = Math.min(restsUntil, this.#pause(rests - 1, pauseProbedMs));
    this.#setTenant(subject, { refusals: 0, rests, restsUntil: until });
  }

  succeeded(subject: Subject): void {
    const { target, object } = subject;
    if (this.#objects.delete(object)) this.#changed.add(target);
    if (this.#tenant(subject).refusals > 0 || this.#tenant(subject).rests > 0)
      this.#setTenant(subject, freshTenant);
    this.#accounts.delete(nameAccount(subject));
    this.#restingTenants.delete(nameAccount(subject));
    this.#restingAccounts.delete(target);
    if (this.get(target).failures === 0 && this.#succeeded.has(target)) return;
    if (this.#succeeded.size < targetsMax) this.#succeeded.add(target);
    this.#set(target, fresh);
  }

  /** The row was given up, or is done without a delivery. */
  forget({ object, target }: Subject): void {
    if (this.#objects.delete(object)) this.#changed.add(target);
  }

  get hasChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** The targets whose state has changed since the last call. */
  takeChanged(): readonly string[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  /** Forgets refused objects whose rows were removed without the knowledge of this worker. */
  forgetStale(): void {
    for (const target of this.#objects.deleteStale(this.#ctx.clock.elapsed())) this.#changed.add(target);
  }

  /** What each target refuses. */
  refusedByTarget(): ReadonlyMap<string, Refused> {
    return this.#objects.byTarget();
  }

  #countFailure(target: string, error: string): void {
    const state = this.get(target);
    this.#set(target, { ...state, failures: state.failures + 1, error: error.slice(0, errorMax) });
  }

  #tenantRests(subject: Subject, error: string): void {
    const { target, tenant, account } = subject;
    const name = nameAccount(subject);
    const before = this.#restingTenants.get(name);
    // The tenants of a sole account have made the target rest. As an account, they do not do so again before a success.
    if (before !== undefined && before.size >= restingMax) return;
    const resting = new Set(before).add(tenant);
    this.#restingTenants.set(name, resting);
    if (resting.size < restingMax) return;
    if (account === undefined) this.unavailable(target, error);
    else {
      this.#restingTenants.delete(name);
      this.#accountRests(subject, error);
    }
  }

  /** All tenants of the account rest for a doubling time. Where another account does too, the target may be the cause. */
  #accountRests(subject: Subject, error: string): void {
    const { target, account = '' } = subject;
    const { rests, restsUntil } = this.#account(subject);
    if (restsUntil > this.#ctx.clock.elapsed()) return;
    this.#accounts.set(nameAccount(subject), {
      rests: rests + 1,
      restsUntil: this.#pause(rests, pauseMaxMs),
    });
    const resting = this.#restingAccounts.get(target) ?? new Set();
    if (resting.has(account) || resting.size >= knownAccountsMax) return;
    this.#restingAccounts.set(target, resting.add(account));
    if (resting.size >= restingMax) this.unavailable(target, error);
  }

  #account(subject: Subject): AccountState {
    return (subject.account !== undefined && this.#accounts.get(nameAccount(subject))) || freshAccount;
  }

  #tenant({ target, tenant }: Subject): TenantState {
    return this.#tenants.get(`${target} ${tenant}`) ?? freshTenant;
  }

  #setTenant({ target, tenant }: Subject, state: TenantState): void {
    this.#tenants.set(`${target} ${tenant}`, state);
  }

  #set(target: string, state: TargetState): void {
    this.#targets.set(target, state);
    this.#changed.add(target);
  }

  /** The end of a pause that doubles with each one before it. */
  #pause(before: number, maxMs: number): number {
    const longest = Math.min(pauseFirstMs * 2 ** Math.max(before, 0), maxMs);
    const share = (this.#ctx.random.bytes(1)[0] ?? 0) / 255;
    return this.#ctx.clock.elapsed() + longest * (0.5 + share / 2);
  }
}

// The targets of a queue that take nothing now, or refuse some objects, stored so that every process can show them.

export interface FailingTarget {
  /** Failures since the last delivery; 0 for a target that takes events of other objects. */
  readonly failures: number;
  readonly error: string;
  /** Store time (ms) of the last change. */
  readonly at: number;
  /** The objects that it refuses. */
  readonly refused?: Refused;
}

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'now'>;

const failingTargetKind = (queue: string): TaskKind<FailingTarget> => ({ kind: `failing-targets-${queue}` });
/** A target that is no longer used is forgotten after this time. */
const retentionMs = 7 * 24 * 60 * 60 * 1000;

/** Stores the last failure of a target; a concurrent write of the same target may win. */
export async function storeFailure(
  metadata: Metadata,
  queue: string,
  { target, ...failure }: { readonly target: string } & Omit<FailingTarget, 'at'>,
): Promise<void> {
  const at = await metadata.now();
  const found = await findSoundTask(metadata, failingTargetKind(queue), target);
  const state: FailingTarget = { ...failure, at };
  const expect = found?.revision ?? 'absent';
  await putTask(metadata, failingTargetKind(queue), {
    name: target,
    state,
    expect,
    expiresAt: at + retentionMs,
  });
}

/** The target has taken something. */
export async function forgetFailure(metadata: Metadata, queue: string, target: string): Promise<void> {
  const found = await findSoundTask(metadata, failingTargetKind(queue), target);
  if (found === undefined) return;
  await putTasks(metadata, failingTargetKind(queue), {
    changes: [{ remove: { name: target }, expect: found.revision }],
  });
}

export async function listFailing(
  metadata: Pick<MetadataStore, 'scan'>,
  queue: string,
): Promise<ReadonlyMap<string, FailingTarget>> {
  const failing = new Map<string, FailingTarget>();
  for await (const { name, state } of everyTask(metadata, failingTargetKind(queue))) failing.set(name, state);
  return failing;
}
