/**
 * The only cache implementation of the service. It holds values that can be computed again, and evicts the least recently used ones once it
 * exceeds its limit of entries or bytes. Bytes are the memory that a value takes: for a compiled policy its compiled size, not the
 * length of its text.
 */

interface CacheLimits<V> {
  /** The label of its metrics; caches of one name are summed. */
  readonly name: string;
  readonly entriesMax: number;
  /** How many bytes an entry takes, its key included, and the limit for all entries. */
  readonly bytes?: { readonly max: number; sizeOf(value: V, key: string): number };
}

interface CacheSize {
  readonly entries: number;
  readonly bytes: number;
}

/** How often a cache was asked, by what it answered. */
interface CacheLookups {
  hits: number;
  misses: number;
}

/** By name; they outlive the caches, because a counter never falls. */
const lookups = new Map<string, CacheLookups>();

/** Weak references, so that this list does not keep caches in memory. */
const caches = new Set<WeakRef<BoundedCache<unknown>>>();

interface Entry<V> {
  readonly value: V;
  readonly size: number;
  /** Whether the entry was read since it was added or last spared. Setting a flag costs less than moving the entry at each read. */
  isUsed: boolean;
}

export class BoundedCache<V> {
  readonly name: string;
  readonly #limits: CacheLimits<V>;
  readonly #lookups: CacheLookups;
  readonly #entries = new Map<string, Entry<V>>();
  #bytes = 0;

  constructor(limits: CacheLimits<V>) {
    this.name = limits.name;
    this.#limits = limits;
    this.#lookups = lookups.get(limits.name) ?? { hits: 0, misses: 0 };
    lookups.set(limits.name, this.#lookups);
    caches.add(new WeakRef<BoundedCache<unknown>>(this));
  }

  get size(): CacheSize {
    return { entries: this.#entries.size, bytes: this.#bytes };
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.#lookups.misses += 1;
      return undefined;
    }
    this.#lookups.hits += 1;
    entry.isUsed = true;
    return entry.value;
  }

  /** A value that exceeds the limit of the whole cache is not cached. */
  set(key: string, value: V): void {
    this.delete(key);
    const { bytes, entriesMax } = this.#limits;
    const size = bytes?.sizeOf(value, key) ?? 0;
    const bytesMax = bytes?.max ?? 0;
    if (size > bytesMax) return;
    this.#entries.set(key, { value, size, isUsed: false });
    this.#bytes += size;
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= entriesMax && this.#bytes <= bytesMax) break;
      if (entry.isUsed) {
        // A second chance: the entry moves behind the others.
        entry.isUsed = false;
        this.#entries.delete(oldest);
        this.#entries.set(oldest, entry);
      } else this.delete(oldest);
    }
  }

  delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }

  /** The value, made by `make` where there is none. */
  find(key: string, make: () => V): V {
    const known = this.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.set(key, made);
    return made;
  }
}

/** The lookups in the caches of this process, by name. */
export const cacheLookups = (): ReadonlyMap<string, CacheLookups> => lookups;

/** The sizes of the caches of this process, by name. */
export function cacheSizes(): ReadonlyMap<string, CacheSize> {
  const sizes = new Map<string, CacheSize>();
  for (const reference of caches) {
    const cache = reference.deref();
    if (cache === undefined) {
      caches.delete(reference);
      continue;
    }
    const { entries, bytes } = sizes.get(cache.name) ?? { entries: 0, bytes: 0 };
    sizes.set(cache.name, { entries: entries + cache.size.entries, bytes: bytes + cache.size.bytes });
  }
  return sizes;
}

/**
 * The caches of one gateway, in its `Context`: one of each kind, created on first use. A kind is a class whose constructor takes no
 * arguments. So no module holds a cache, and two gateways in one process share none.
 */
export class Caches {
  readonly #made = new Map<new () => object, object>();

  of<T extends object>(kind: new () => T): T {
    let cache = this.#made.get(kind);
    if (cache === undefined) {
      cache = new kind();
      this.#made.set(kind, cache);
    }
    // The cast is safe: the map holds an instance of `kind` under `kind`.
    return cache as T;
  }
}

// Functions that cache their results.

/** Caches the last result: times are formatted and parsed many times in one millisecond. */
export function memoizeLast<In, Out>(compute: (input: In) => Out): (input: In) => Out {
  let last: { readonly input: In; readonly output: Out } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, output: compute(input) };
    return last.output;
  };
}

/** Caches the result for each object, for as long as the object lives. */
export function memoizeEach<In extends object, Out extends object>(
  compute: (input: In) => Out,
): (input: In) => Out {
  const said = new WeakMap<In, Out>();
  return (input) => {
    let output = said.get(input);
    if (output === undefined) {
      output = compute(input);
      said.set(input, output);
    }
    return output;
  };
}
