/** The rules of a split (docs/adr/0010), pure: where readers may find a row, and where writers put it. */
import { shardOf } from '../../../base/shard.ts';
import { compareBytes } from '../rows/span.ts';

/** The layout of a partition, stored in its first shard. */
export interface Layout {
  /** Rows are in one of this many shards, or in the half of them that existed before. */
  readonly to: number;
}

/**
 * The progress of a shard: of the texts that leave it, those up to `moved` have left, and those after it up to `moving` are leaving now, in
 * this batch; `null` stands for all that remain.
 */
export interface Progress {
  readonly to: number;
  readonly batch: number;
  readonly moved?: string;
  readonly moving?: string | null;
  readonly isDone: boolean;
}

/** The batch whose rows a new shard accepts. An older batch never opens again. */
export interface Arrivals {
  readonly batch: number;
  readonly isOpen: boolean;
}

const encoder = new TextEncoder();

/** In the order of rows: by UTF-8 bytes. */
export const isUpTo = (text: string, last: string): boolean =>
  text === last || compareBytes(encoder.encode(text), encoder.encode(last)) <= 0;

/** Whether a row leaves its shard when `ways` doubles. */
export const leaves = (text: string, ways: number): boolean =>
  shardOf(text, ways) !== shardOf(text, ways * 2);

/** Where a leaving text is written: in its old shard, in its new one, or nowhere for a moment. */
export function locateText(text: string, progress: Progress | undefined): 'old' | 'leaving' | 'new' {
  if (progress === undefined) return 'old';
  const { moved, moving, isDone } = progress;
  if (isDone || (moved !== undefined && isUpTo(text, moved))) return 'new';
  if (moving !== undefined && (moving === null || isUpTo(text, moving))) return 'leaving';
  return 'old';
}

/** The shards that may have a row, in the order in which it moves; each doubling moves it once or not at all. */
export function listPlaces(
  text: string,
  { ways, to }: { readonly ways: number; readonly to: number },
): number[] {
  const places = new Set<number>();
  for (let count = ways; count <= Math.max(ways, to); count *= 2) places.add(shardOf(text, count));
  return [...places];
}
