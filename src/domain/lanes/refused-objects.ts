/**
 * The objects that targets refuse, in memory, each with the failures of its row. Where there are too many, the tenant with the most objects
 * forgets its oldest one: of the owner with the most, where there are several. So no tenant makes others forget theirs.
 */

interface Refusable {
  readonly target: string;
  readonly tenant: string;
  readonly owner: string;
}

export interface ObjectState {
  /** Failures of its row. */
  readonly failures: number;
  /** By the monotonic clock. */
  readonly restsUntil: number;
  readonly error: string;
}

interface Entry extends Refusable, ObjectState {}

/** Objects of a target that it refuses, and why. */
export interface Refused {
  readonly objects: number;
  /** The most frequent errors first. */
  readonly reasons: readonly { readonly error: string; readonly objects: number }[];
}

interface Share {
  objects: number;
  /** The objects of each tenant, those first that were refused the longest time ago. */
  readonly tenants: Map<string, Set<string>>;
}

const objectsMax = 10_000;
const reasonsMax = 5;
/**
 * An object is tried again within minutes. One that is not has no row any more: its row was removed with its hour, or
 * as one of too many.
 */
const staleMs = 60 * 60 * 1000;

export class RefusedObjects {
  /** Those first that were refused the longest time ago. */
  readonly #entries = new Map<string, Entry>();
  /** By owner. */
  readonly #shares = new Map<string, Share>();

  get(object: string): ObjectState | undefined {
    return this.#entries.get(object);
  }

  set(subject: Refusable & { readonly object: string }, state: ObjectState): void {
    const { target, tenant, owner, object } = subject;
    this.delete(object);
    this.#entries.set(object, { target, tenant, owner, ...state });
    const share = this.#shares.get(owner) ?? { objects: 0, tenants: new Map() };
    this.#shares.set(owner, share);
    const objects = share.tenants.get(tenant) ?? new Set();
    share.tenants.set(tenant, objects.add(object));
    share.objects += 1;
    if (this.#entries.size > objectsMax) this.#evict(share, objects);
  }

  /** @returns whether it was known */
  delete(object: string): boolean {
    const entry = this.#entries.get(object);
    if (entry === undefined) return false;
    const { tenant, owner } = entry;
    this.#entries.delete(object);
    const share = this.#shares.get(owner);
    const objects = share?.tenants.get(tenant);
    if (share === undefined || objects === undefined) return true;
    objects.delete(object);
    share.objects -= 1;
    if (objects.size === 0) share.tenants.delete(tenant);
    if (share.objects === 0) this.#shares.delete(owner);
    return true;
  }

  /** Forgets objects that were not refused for a long time. @returns their targets */
  deleteStale(now: number): ReadonlySet<string> {
    const targets = new Set<string>();
    for (const [object, { target, restsUntil }] of this.#entries) {
      if (restsUntil + staleMs > now) break;
      this.delete(object);
      targets.add(target);
    }
    return targets;
  }

  /** What each target refuses. */
  byTarget(): ReadonlyMap<string, Refused> {
    const counts = new Map<string, Map<string, number>>();
    for (const { target, error } of this.#entries.values()) {
      const reasons = counts.get(target) ?? new Map<string, number>();
      counts.set(target, reasons.set(error, (reasons.get(error) ?? 0) + 1));
    }
    return new Map(
      [...counts].map(([target, reasons]) => [
        target,
        {
          objects: [...reasons.values()].reduce((sum, count) => sum + count, 0),
          reasons: [...reasons]
            .toSorted(([, a], [, b]) => b - a)
            .slice(0, reasonsMax)
            .map(([error, objects]) => ({ error, objects })),
        },
      ]),
    );
  }

  /** Of several that have the most, the one that has just got another. */
  #evict(latest: Share, latestObjects: Set<string>): void {
    let share = latest;
    for (const each of this.#shares.values()) if (each.objects > share.objects) share = each;
    let objects = share === latest ? latestObjects : new Set<string>();
    for (const each of share.tenants.values()) if (each.size > objects.size) objects = each;
    const [oldest] = objects;
    if (oldest !== undefined) this.delete(oldest);
  }
}
