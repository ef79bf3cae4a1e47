/** The rules of a split (docs/adr/0010), pure: where a row may lie, and where it lies for its writers. */
import { shardOf } from '../../../base/shard.ts';
import { compareBytes } from '../rows/span.ts';

/** What a partition's first shard says of all of them. */
export interface Layout {
  /** Rows lie in one of so many shards, or in the half of them that came before. */
  readonly to: number;
}

/**
 * How far a shard has got: of the texts that leave it, those up to `moved` have, and those behind it up to `moving`
 * are leaving it now, under this batch; `null` stands for all that are left.
 */
export interface Progress {
  readonly to: number;
  readonly batch: number;
  readonly moved?: string;
  readonly moving?: string | null;
  readonly isDone: boolean;
}

/** Which batch a new shard takes rows of. An older one never opens again. */
export interface Arrivals {
  readonly batch: number;
  readonly isOpen: boolean;
}

const encoder = new TextEncoder();

/** As rows sort: by UTF-8 bytes. */
export const isUpTo = (text: string, last: string): boolean =>
  text === last || compareBytes(encoder.encode(text), encoder.encode(last)) <= 0;

/** Whether a row leaves its shard when `ways` doubles. */
export const leaves = (text: string, ways: number): boolean =>
  shardOf(text, ways) !== shardOf(text, ways * 2);

/** Where a text that leaves is written: in its old shard, in its new one, or nowhere for a moment. */
export function standOf(text: string, progress: Progress | undefined): 'old' | 'leaving' | 'new' {
  if (progress === undefined) return 'old';
  const { moved, moving, isDone } = progress;
  if (isDone || (moved !== undefined && isUpTo(text, moved))) return 'new';
  if (moving !== undefined && (moving === null || isUpTo(text, moving))) return 'leaving';
  return 'old';
}

/** The shards that a row may lie in, in the order in which it moves; each doubling leaves it or moves it once. */
export function placesOf(
  text: string,
  { ways, to }: { readonly ways: number; readonly to: number },
): number[] {
  const places = new Set<number>();
  for (let count = ways; count <= Math.max(ways, to); count *= 2) places.add(shardOf(text, count));
  return [...places];
}
