/**
 * The layout of a data directory:
 *
 * segments/<segment>.seg    small chunks one after another; appended to by the process that created it only
 *          <segment>.open   exists while that process may append; removing it seals the segment
 *          <segment>.dead   the offsets of removed chunks, appended to by every process
 *          <segment>.sum    a summary of a sealed segment; can be computed again
 *          <segment>.lock   a process compacts it
 * large/<first of id>/<id>  a chunk in a file of its own
 * temporary/                files that are being written; their names say which process does (maker.ts)
 */
import fs from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../ports/clock.ts';
import type { Random } from '../../../ports/random.ts';

/** Only the server's account may read the bytes of tenants, also in a directory that was created with wider modes. */
export const fileMode = 0o600;
export const directoryMode = 0o700;

/** Ids sort by time: the first characters keep a directory's files, and a listing's, together. */
const groupCharacters = 5;

export interface Layout {
  readonly segments: string;
  readonly large: string;
  readonly temporary: string;
}

export function makeLayout(directory: string): Layout {
  const layout = {
    segments: join(directory, 'segments'),
    large: join(directory, 'large'),
    temporary: join(directory, 'temporary'),
  };
  for (const path of [directory, ...Object.values(layout)]) {
    fs.mkdirSync(path, { recursive: true, mode: directoryMode });
    narrow(path);
  }
  return layout;
}

/** Takes the rights of group and others from a directory that existed before. */
function narrow(path: string): void {
  const { mode } = fs.statSync(path);
  if ((mode & 0o077) === 0) return;
  try {
    fs.chmodSync(path, directoryMode);
  } catch (error) {
    // Another account owns the directory; its files are private all the same.
    if ((error as { code?: string }).code !== 'EPERM') throw error;
  }
}

export type SegmentFile = 'seg' | 'open' | 'dead' | 'sum' | 'lock';

export const segmentPath = (layout: Layout, segment: string, file: SegmentFile): string =>
  `${layout.segments}/${segment}.${file}`;

/** Sorts by time of creation and is never drawn twice. */
export function newName({ clock, random }: { readonly clock: Clock; readonly random: Random }): string {
  let drawn = '';
  for (const byte of random.bytes(8)) drawn += (byte & 31).toString(32);
  return Math.floor(clock.now()).toString(32).padStart(9, '0') + drawn;
}

export const largeGroup = (id: string): string => id.slice(0, groupCharacters);
export const largePath = (layout: Layout, id: string): string => `${layout.large}/${largeGroup(id)}/${id}`;

/** Whether a group of large chunks can contain ids with this prefix. */
export const groupMatches = (group: string, prefix: string): boolean =>
  group.startsWith(prefix.slice(0, groupCharacters));

/** A small chunk's locator: segment, offset and header length, so that one read gets it all. */
export interface Place {
  readonly segment: string;
  readonly offset: number;
  readonly headerBytes: number;
}

export const formatPlace = ({ segment, offset, headerBytes }: Place): string =>
  `${segment}.${offset.toString(36)}.${headerBytes.toString(36)}`;

export function parsePlace(at: string): Place {
  const first = at.indexOf('.');
  const second = at.indexOf('.', first + 1);
  const offset = Number.parseInt(at.slice(first + 1, second), 36);
  const headerBytes = Number.parseInt(at.slice(second + 1), 36);
  const segment = at.slice(0, first);
  // The locator comes from metadata, but it becomes part of a path: validate it.
  if (!/^[0-9a-v]+$/.test(segment) || !(offset >= 0) || !(headerBytes > 0)) {
    throw new Error(`${JSON.stringify(at)} is not a chunk's place`);
  }
  return { segment, offset, headerBytes };
}

export const isMissing = (error: unknown): boolean => (error as { code?: string } | null)?.code === 'ENOENT';
export const isTaken = (error: unknown): boolean => (error as { code?: string } | null)?.code === 'EEXIST';

/** Segments present, oldest first. */
export function segmentNames(layout: Layout): string[] {
  const names: string[] = [];
  for (const name of fs.readdirSync(layout.segments))
    if (name.endsWith('.seg')) names.push(name.slice(0, -4));
  return names.sort();
}
