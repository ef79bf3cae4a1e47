/** The state of keys under load as a client knows it: acknowledged versions, and both possible outcomes of unanswered requests. */
import { createHash } from 'node:crypto';

/** Bytes computed from a seed and a size, so that the model need not store them. */
export interface Content {
  readonly seed: number;
  readonly size: number;
}

export function bytesOf({ seed, size }: Content): Buffer {
  const words = new Uint32Array(Math.ceil(size / 4));
  let state = (seed | 1) >>> 0;
  for (let i = 0; i < words.length; i += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return Buffer.from(words.buffer, 0, size);
}

export const md5Hex = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('hex');

/** Numbers in [0, 1) from a seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Version {
  /** Undefined while it is unknown, because the request was not answered. */
  readonly id: string | undefined;
  /** In order; absent for a delete marker. */
  readonly contents?: readonly Content[];
  readonly etag: string;
}

/** Newest first. A key of an unversioned bucket has one version, `null`, or none. */
export type State = readonly Version[];

export const bodyOf = (version: Version): Buffer => Buffer.concat((version.contents ?? []).map(bytesOf));
export const sizeOf = (version: Version): number =>
  (version.contents ?? []).reduce((sum, { size }) => sum + size, 0);

/** The version as ListObjectVersions returns it. */
export interface Shown {
  readonly key: string;
  readonly id: string;
  readonly isMarker: boolean;
  readonly isLatest: boolean;
  readonly etag: string;
  readonly size: number;
}

const isShown = (version: Version, shown: Shown): boolean =>
  (version.id === undefined || version.id === shown.id) &&
  (version.contents === undefined) === shown.isMarker &&
  (shown.isMarker || (version.etag === shown.etag && sizeOf(version) === shown.size));

/** The keys of one bucket. */
export class Model {
  readonly versioned: boolean;
  /** The possible states of each key; one if its state is certain. */
  readonly #keys = new Map<string, readonly State[]>();

  constructor(versioned: boolean) {
    this.versioned = versioned;
  }

  /** The state of a key whose state is certain. */
  certain(key: string): State | undefined {
    const [state = [], ...others] = this.#keys.get(key) ?? [];
    return others.length > 0 ? undefined : state;
  }

  /** Records a write that is about to be sent: until `settle`, both outcomes are possible. */
  doubt(key: string, after: State): void {
    this.#keys.set(key, [this.certain(key) ?? [], after]);
  }

  settle(key: string, state: State): void {
    this.#keys.set(key, [state]);
  }

  withVersion(key: string, version: Version): State {
    const before = this.certain(key) ?? [];
    return this.versioned ? [version, ...before] : version.contents === undefined ? [] : [version];
  }

  /** Compares with a full listing of versions, resolves every unknown outcome, and returns every contradiction. */
  resolve(shown: readonly Shown[]): string[] {
    const faults: string[] = [];
    const byKey = Map.groupBy(shown, ({ key }) => key);
    for (const key of new Set([...this.#keys.keys(), ...byKey.keys()])) {
      const found = byKey.get(key) ?? [];
      const possible = this.#keys.get(key) ?? [[]];
      const actual = possible.find(
        (state) =>
          state.length === found.length && state.every((version, i) => isShown(version, found[i] as Shown)),
      );
      if (actual === undefined) {
        faults.push(`${key} is ${JSON.stringify(found)} and may only be one of ${JSON.stringify(possible)}`);
        continue;
      }
      if (found.some(({ isLatest }, i) => isLatest !== (i === 0))) faults.push(`${key}: latest is not first`);
      this.settle(
        key,
        actual.map((version, i) => ({ ...version, id: found[i]?.id })),
      );
    }
    return faults;
  }

  /** Every certain version, the longest known first. */
  *versions(): Generator<{ readonly key: string; readonly version: Version; readonly isLatest: boolean }> {
    for (const [key, [state = []]] of this.#keys) {
      for (const [i, version] of state.entries()) yield { key, version, isLatest: i === 0 };
    }
  }

  /** The expected entries of ListObjectsV2, in order: `key etag size`. */
  live(): string[] {
    return [...this.versions()]
      .filter(({ isLatest, version }) => isLatest && version.contents !== undefined)
      .map(({ key, version }) => `${key} ${version.etag} ${sizeOf(version)}`)
      .sort();
  }
}
