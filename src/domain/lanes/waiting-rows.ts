/**
 * Which objects have rows in the waiting lanes of a queue. The consumer moves a row there when its target refuses it,
 * or when its tenant has more than its share of a lane; and then every later row of the object, so that none overtakes
 * another. Only the leader moves rows, within its term, so the leader's memory is the truth; a new leader reads the
 * lanes once, after it has begun its own term. A redrive puts an event before the oldest one of its object that waits.
 */
import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Context } from '../../context.ts';
import { dueRowsOfHour, moveHourlyRows } from '../../metadata/background/hourly-consumer.ts';
import { type HourlyQueue, isWaitingSlot, waitingSlot } from '../../metadata/background/hourly-queues.ts';
import type { Term } from '../../metadata/background/tasks.ts';
import type { HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import type { Subject } from './target-states.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

/**
 * Objects that are remembered by name. Beyond it those of the tenant with the most in a slot are forgotten: it counts
 * as one all of whose objects wait there.
 */
const objectsMax = 20_000;
/** Rows of a slot and hour that a new leader reads; where there are more, every object of the slot counts as one that waits. */
const loadedMax = 50_000;
/** How long a slot without rows is not read again: a former leader may have added some late. */
const emptyMs = 60_000;

interface WaitingSlot {
  readonly slot: number;
  readonly hours: Set<number>;
  /** By tenant, how many rows each object has; undefined where every object of the tenant may have some. Two tenants may share a slot. */
  readonly tenants: Map<string, Map<string, number> | undefined>;
  /** The owner of each of these tenants. */
  readonly owners: Map<string, string>;
  /** Whether objects of any tenant may have rows, because some were not read. */
  isUnread: boolean;
  /** Objects with rows on their way into the slot, and how many. */
  readonly moving: Map<string, number>;
  /** Objects that got rows since the last pass began: what it reads of them may lack an earlier row. */
  arrived: Set<string>;
  /** By the monotonic clock: nothing of it is due before. */
  restsUntil: number;
}

/** How many rows of an object are counted: any number where its tenant counts as one all of whose objects wait. */
function rowsOf({ tenants }: WaitingSlot, { tenant, object }: Subject): number {
  if (!tenants.has(tenant)) return 0;
  const objects = tenants.get(tenant);
  return objects === undefined ? Number.POSITIVE_INFINITY : (objects.get(object) ?? 0);
}

export class WaitingRows {
  readonly #ctx: Ctx;
  readonly #slots = new Map<number, WaitingSlot>();
  readonly #readAt = new BoundedCache<number>({ name: 'waiting-hours', entriesMax: 65_536 });
  #objects = 0;

  constructor(ctx: Ctx) {
    this.#ctx = ctx;
  }

  /** Reads the waiting lanes among these places, unless it has done so. */
  async load(
    places: readonly QueueHour[],
    { now, subjectOf }: { readonly now: number; readonly subjectOf: (row: HourlyRow) => Subject },
  ): Promise<void> {
    for (const place of places) {
      if (!isWaitingSlot(place.slot) || this.#slots.get(place.slot)?.hours.has(place.hour)) continue;
      const name = `${place.slot} ${place.hour}`;
      const readAt = this.#readAt.get(name);
      if (readAt !== undefined && this.#ctx.clock.elapsed() - readAt < emptyMs) continue;
      let rows = 0;
      for await (const row of dueRowsOfHour(this.#ctx, place, { now })) {
        const slot = this.#open(place.slot);
        slot.hours.add(place.hour);
        this.#count(slot, subjectOf(row));
        rows += 1;
        if (rows < loadedMax) continue;
        slot.isUnread = true;
        break;
      }
      this.#readAt.set(name, this.#ctx.clock.elapsed());
    }
  }

  has(row: HourlyRow, { tenant, object }: Subject): boolean {
    const slot = this.#slots.get(waitingSlot(row.slot, tenant));
    if (slot === undefined) return false;
    if (slot.isUnread) return true;
    if (!slot.tenants.has(tenant)) return false;
    return slot.tenants.get(tenant)?.has(object) ?? true;
  }

  /** Whether any object may have rows in a waiting lane. */
  get hasAny(): boolean {
    return this.#slots.size > 0;
  }

  /** The slots that have rows. */
  get slots(): readonly number[] {
    return [...this.#slots.keys()];
  }

  /** Whose rows a slot has: accounts, or buckets where rows name no account. Empty where it is not known. */
  ownersIn(slot: number): readonly string[] {
    return [...(this.#slots.get(slot)?.owners.values() ?? [])];
  }

  /** The slots that have rows which may be due. */
  due(): readonly number[] {
    const now = this.#ctx.clock.elapsed();
    return [...this.#slots.values()].filter(({ restsUntil }) => restsUntil <= now).map(({ slot }) => slot);
  }

  /**
   * Announces that a row will be moved, so that later rows of its object follow it. Its move, or its release, comes
   * next, also after an error.
   */
  reserve(row: HourlyRow, subject: Subject): void {
    const { tenant, object } = subject;
    const slot = this.#open(waitingSlot(row.slot, tenant));
    this.#count(slot, subject);
    slot.moving.set(object, (slot.moving.get(object) ?? 0) + 1);
    slot.arrived.add(object);
  }

  /** The row stays where it is. */
  release(row: HourlyRow, subject: Subject): void {
    const number = waitingSlot(row.slot, subject.tenant);
    this.#arrived(number, subject.object);
    this.finished(number, subject);
    const slot = this.#slots.get(number);
    if (slot?.hours.size === 0 && slot.moving.size === 0) this.#close(slot);
  }

  /**
   * Moves reserved rows, the oldest first. Where that fails, some of them may have been moved: all of them count as
   * waiting, and a pass over the slot finds out.
   * @throws LeaseLost
   */
  async move(
    rows: readonly HourlyRow[],
    {
      queue,
      term,
      subjectOf,
      restsUntil,
    }: {
      readonly queue: HourlyQueue;
      readonly term: Term;
      readonly subjectOf: (row: HourlyRow) => Subject;
      readonly restsUntil: (subject: Subject) => number;
    },
  ): Promise<void> {
    const moves = rows.map((row) => ({ row, slot: waitingSlot(row.slot, subjectOf(row).tenant) }));
    let hours: readonly number[] = [];
    try {
      hours = await moveHourlyRows(this.#ctx, { queue, moves, term });
    } finally {
      for (const [n, { row, slot: number }] of moves.entries()) {
        const subject = subjectOf(row);
        const slot = this.#open(number);
        slot.hours.add(hours[n] ?? row.hour);
        slot.restsUntil = Math.min(slot.restsUntil, restsUntil(subject));
        this.#arrived(number, subject.object);
      }
    }
  }

  /** A pass over the slot begins. @returns its hours, the oldest first */
  begin(number: number): readonly number[] {
    const slot = this.#open(number);
    slot.arrived = new Set(slot.moving.keys());
    slot.restsUntil = Number.POSITIVE_INFINITY;
    return [...slot.hours].sort((a, b) => a - b);
  }

  /** Whether this pass has to leave the object to the next one. */
  hasArrived(number: number, object: string): boolean {
    return this.#slots.get(number)?.arrived.has(object) ?? false;
  }

  /** Rows that were read of the slot. A redrive, of any process, adds rows to those of an object, and they are counted here. */
  read(number: number, subjects: readonly Subject[]): void {
    const slot = this.#slots.get(number);
    if (slot === undefined) return;
    for (const of of Map.groupBy(subjects, ({ object }) => object).values()) {
      const [subject] = of as [Subject];
      for (let counted = rowsOf(slot, subject); counted < of.length; counted += 1) this.#count(slot, subject);
    }
  }

  /** A row of the slot is done. */
  finished(number: number, { tenant, object }: Subject): void {
    const slot = this.#slots.get(number);
    const objects = slot?.tenants.get(tenant);
    const rows = objects?.get(object);
    if (objects === undefined || rows === undefined) return;
    if (rows > 1) objects.set(object, rows - 1);
    else if (objects.delete(object)) this.#objects -= 1;
    if (objects.size > 0) return;
    slot?.tenants.delete(tenant);
    slot?.owners.delete(tenant);
  }

  /** A pass over an hour found no row. */
  isEmpty(number: number, hour: number): void {
    const slot = this.#slots.get(number);
    if (slot === undefined || slot.arrived.size > 0) return;
    slot.hours.delete(hour);
    if (slot.hours.size === 0) this.#close(slot);
  }

  /** A pass ended. @param restsUntil when something of the slot may be due */
  end(number: number, restsUntil: number): void {
    const slot = this.#slots.get(number);
    if (slot !== undefined) slot.restsUntil = Math.min(slot.restsUntil, restsUntil);
  }

  #open(number: number): WaitingSlot {
    const known = this.#slots.get(number);
    if (known !== undefined) return known;
    const slot: WaitingSlot = {
      slot: number,
      hours: new Set(),
      tenants: new Map(),
      owners: new Map(),
      isUnread: false,
      moving: new Map(),
      arrived: new Set(),
      restsUntil: Number.NEGATIVE_INFINITY,
    };
    this.#slots.set(number, slot);
    return slot;
  }

  #close({ slot, tenants }: WaitingSlot): void {
    for (const objects of tenants.values()) this.#objects -= objects?.size ?? 0;
    this.#slots.delete(slot);
  }

  #count(slot: WaitingSlot, { tenant, owner, object }: Subject): void {
    slot.owners.set(tenant, owner === '' ? tenant : owner);
    const objects = slot.tenants.has(tenant) ? slot.tenants.get(tenant) : new Map<string, number>();
    slot.tenants.set(tenant, objects);
    if (objects === undefined) return;
    const rows = objects.get(object);
    objects.set(object, (rows ?? 0) + 1);
    if (rows !== undefined) return;
    this.#objects += 1;
    if (this.#objects > objectsMax) this.#forget(slot, tenant);
  }

  /** Forgets the names of the largest share. Of several, of the one that has just got another object. */
  #forget(latest: WaitingSlot, latestTenant: string): void {
    let most = latest.tenants.get(latestTenant)?.size ?? 0;
    let of = { tenants: latest.tenants, tenant: latestTenant };
    for (const { tenants } of this.#slots.values())
      for (const [tenant, objects] of tenants)
        if ((objects?.size ?? 0) > most) {
          most = objects?.size ?? 0;
          of = { tenants, tenant };
        }
    of.tenants.set(of.tenant, undefined);
    this.#objects -= most;
  }

  #arrived(number: number, object: string): void {
    const moving = this.#slots.get(number)?.moving;
    const rows = moving?.get(object) ?? 0;
    if (rows > 1) moving?.set(object, rows - 1);
    else moving?.delete(object);
  }
}

// Which waiting lanes of a target run next. The owners of their rows have turns in rotation, and so have the lanes of an owner. One lane
// stays free for an owner of which none runs, so an owner with a backlog in many lanes delays no row of another owner.

export interface WaitingLane {
  readonly lane: number;
  /** Whose rows it has. Two tenants may share a lane. */
  readonly owners: ReadonlySet<string>;
}

export class WaitingTurns {
  /** When a lane, or an owner at a target, had its last turn, or else was seen first: as the number of turns before. */
  readonly #since = new Map<string, number>();
  #turns = 0;
  #sizeMax = 1_024;

  /**
   * The lanes that may begin a turn now.
   * @param target whose lanes these are
   * @param running lanes that have a turn
   * @param max turns at a time
   */
  begin<Lane extends WaitingLane>(
    target: number,
    {
      due,
      running,
      max,
    }: { readonly due: readonly Lane[]; readonly running: readonly WaitingLane[]; readonly max: number },
  ): readonly Lane[] {
    const left = new Set(due);
    const runningBy = new Map<string, number>();
    const count = ({ owners }: WaitingLane): void => {
      for (const owner of owners) runningBy.set(owner, (runningBy.get(owner) ?? 0) + 1);
    };
    const placeOfOwner = (owner: string): Place => [
      runningBy.get(owner) ?? 0,
      this.#find(nameOwner(target, owner)),
    ];
    const placeOf = ({ lane, owners }: WaitingLane): Place => [
      ...(findFirst(owners, placeOfOwner)?.place ?? [0, 0]),
      this.#find(nameLane(lane)),
    ];
    for (const each of running) count(each);
    const begun: Lane[] = [];
    for (let free = max - running.length; free > 0; free -= 1) {
      const next = findFirst(left, placeOf);
      if (next === undefined) break;
      const [runs = 0] = next.place;
      if (free === 1 && runs > 0) break;
      const { each } = next;
      left.delete(each);
      count(each);
      begun.push(each);
      this.#turns += 1;
      for (const name of namesOf(target, each)) this.#since.set(name, this.#turns);
    }
    return begun;
  }

  /** Forgets the lanes and owners that have no rows, once there may be many of them. @param list every lane with rows, and its target */
  forgetUnused(list: () => Iterable<WaitingLane & { readonly target: number }>): void {
    if (this.#since.size <= this.#sizeMax) return;
    const used = new Set<string>();
    for (const each of list()) for (const name of namesOf(each.target, each)) used.add(name);
    for (const name of this.#since.keys()) if (!used.has(name)) this.#since.delete(name);
    this.#sizeMax = 1_024 + 2 * this.#since.size;
  }

  /** What is seen for the first time has its turn behind all others. */
  #find(name: string): number {
    const since = this.#since.get(name) ?? this.#turns;
    this.#since.set(name, since);
    return since;
  }
}

const nameLane = (lane: number): string => `${lane}`;
const nameOwner = (target: number, owner: string): string => `${target} ${owner}`;
const namesOf = (target: number, { lane, owners }: WaitingLane): readonly string[] => [
  nameLane(lane),
  ...[...owners].map((owner) => nameOwner(target, owner)),
];

/** Numbers that are compared one after the other; the least comes first. */
type Place = readonly number[];

const compare = (a: Place, b: Place): number => {
  const at = a.findIndex((value, n) => value !== b[n]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
};

interface Placed<T> {
  readonly each: T;
  readonly place: Place;
}

/** Of several at one place the first. */
function findFirst<T>(all: Iterable<T>, placeOf: (each: T) => Place): Placed<T> | undefined {
  let first: Placed<T> | undefined;
  for (const each of all) {
    const place = placeOf(each);
    if (first === undefined || compare(place, first.place) < 0) first = { each, place };
  }
  return first;
}
