/**
 * The process that made a segment, written into the segment's `.open` file, or a temporary file, in the file's name, so that another
 * process can find out whether it is dead. Linux only: elsewhere, and for a maker on another machine or in another container,
 * the answer is "unknown", and the age of the segment decides.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import process from 'node:process';
import { ChunkDamaged } from '../../../ports/object-bytes.ts';
import { readStat } from '../../process-identity.ts';
import { type FileIdentity, fileMode, isMissing, type Layout, segmentPath } from './disk.ts';
import {
  decodePackedHead,
  decodePackedTable,
  isPacked,
  type PackedTable,
  packedHeadBytes,
  packedTableBytes,
} from './packed.ts';

interface Maker {
  /** Boot, process and time namespace: process ids and start times compare only within one. */
  readonly world: string;
  readonly pid: number;
  /** In clock ticks since the boot: distinguishes a process from a later one with the same id. */
  readonly started: string;
}

/** Creates the `.open` file; fails if it exists. @returns which file it is */
export function writeMaker(path: string): FileIdentity {
  const fd = fs.openSync(path, 'wx', fileMode);
  try {
    const { dev, ino } = fs.fstatSync(fd);
    nameMaker(fd);
    return { dev, ino };
  } finally {
    fs.closeSync(fd);
  }
}

function nameMaker(fd: number): void {
  try {
    const maker = findSelf();
    if (maker) fs.writeSync(fd, JSON.stringify(maker));
  } catch {
    // A full disk: without its maker's name the segment is sealed by age, as before.
  }
}

/** True only when the process that wrote the `.open` file cannot write any more. */
export const isMakerDead = (path: string): boolean => isDead(readMaker(path));

/** The end of the name of a file that this process makes: its process id, when it started, and a digest of its world. */
export function makerSuffix(): string {
  const maker = findSelf();
  return maker === undefined ? '' : `.${maker.pid}.${maker.started}.${digest(maker.world)}`;
}

/** As `isMakerDead`, for a file whose name ends with the `makerSuffix` of its maker. */
export function isNamedMakerDead(name: string): boolean {
  const [, pid, started, world] = name.split('.');
  const own = findSelf()?.world;
  if (started === undefined || own === undefined || world !== digest(own)) return false;
  return isDead(asMaker({ world: own, pid: Number(pid), started }));
}

const digest = (world: string): string => createHash('sha256').update(world).digest('hex').slice(0, 16);

function isDead(maker: Maker | undefined): boolean {
  if (maker === undefined || maker.world !== findSelf()?.world) return false;
  try {
    process.kill(maker.pid, 0);
  } catch (error) {
    // Any other error, such as EPERM, means that the process exists.
    return (error as { code?: string }).code === 'ESRCH';
  }
  const started = readStart(maker.pid);
  return started !== undefined && started !== maker.started;
}

function readMaker(path: string): Maker | undefined {
  try {
    return asMaker(JSON.parse(fs.readFileSync(path, 'utf8')));
  } catch {
    // Missing, empty (an older version wrote it) or torn by a crash: unknown.
    return undefined;
  }
}

function asMaker(parsed: unknown): Maker | undefined {
  const { world, pid, started } = Object(parsed) as Partial<Maker>;
  const isWhole = typeof world === 'string' && Number.isSafeInteger(pid) && typeof started === 'string';
  // Zero and negative ids would address process groups.
  return isWhole && Number(pid) > 0 ? { world, pid: Number(pid), started } : undefined;
}

let self: Maker | undefined | 'not looked up' = 'not looked up';

function findSelf(): Maker | undefined {
  if (self === 'not looked up') self = lookUpSelf();
  return self;
}

function lookUpSelf(): Maker | undefined {
  try {
    // A /proc of another process namespace would show other processes under the same ids.
    if (fs.readlinkSync('/proc/self') !== String(process.pid)) return undefined;
    const boot = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    const started = readStart('self');
    if (boot === '' || started === undefined) return undefined;
    const world = `${boot} ${fs.readlinkSync('/proc/self/ns/pid')} ${readTimeNamespace()}`;
    return { world, pid: process.pid, started };
  } catch {
    // Not Linux, or /proc is not mounted.
    return undefined;
  }
}

function readTimeNamespace(): string {
  try {
    return fs.readlinkSync('/proc/self/ns/time');
  } catch {
    // Kernels before 5.6 have none.
    return '';
  }
}

function readStart(pid: number | 'self'): string | undefined {
  try {
    return readStat(pid)?.startedAt;
  } catch {
    return undefined;
  }
}

// Opens a segment for reading, packed or not.

interface OpenSegment {
  readonly fd: number;
  readonly inode: number;
  readonly table: PackedTable | undefined;
}

/** Undefined when there is no such segment (any more). The caller closes the descriptor. */
export function openSegment(layout: Layout, segment: string): OpenSegment | undefined {
  let fd: number;
  try {
    fd = fs.openSync(segmentPath(layout, segment, 'seg'), 'r');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    return { fd, inode: fs.fstatSync(fd).ino, table: readTable(fd, segment) };
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

function readTable(fd: number, segment: string): PackedTable | undefined {
  const head = Buffer.alloc(packedHeadBytes);
  const count = fs.readSync(fd, head, 0, head.length, 0);
  if (!isPacked(head.subarray(0, count))) return undefined;
  const decoded = decodePackedHead(head.subarray(0, count));
  const size = fs.fstatSync(fd).size;
  if (decoded && size === decoded.recordsEnd + packedTableBytes(decoded.count)) {
    const bytes = Buffer.alloc(packedTableBytes(decoded.count));
    fs.readSync(fd, bytes, 0, bytes.length, decoded.recordsEnd);
    const table = decodePackedTable(decoded, bytes);
    if (table) return table;
  }
  throw new ChunkDamaged(`the table of packed segment ${segment} is damaged`);
}

// Seals segments that processes left open when they died, and removes their temporary files.

/** If the owner lives after all, it acknowledges nothing more in this segment, because it checks `.open`. */
export function sealLeftOpen(layout: Layout, segment: string): void {
  fs.rmSync(segmentPath(layout, segment, 'open'), { force: true });
  // Removed only now: what the maker wrote into the segment before is counted by the next summary.
  fs.rmSync(segmentPath(layout, segment, 'sum'), { force: true });
}

/** At the start of a process: seals the segments of killed processes, and removes their temporary files. */
export function cleanUpAfterDead(layout: Layout): void {
  try {
    for (const name of fs.readdirSync(layout.segments)) {
      if (!name.endsWith('.open')) continue;
      const segment = name.slice(0, -'.open'.length);
      if (isMakerDead(segmentPath(layout, segment, 'open'))) sealLeftOpen(layout, segment);
    }
    for (const name of fs.readdirSync(layout.temporary))
      if (isNamedMakerDead(name)) fs.rmSync(`${layout.temporary}/${name}`, { force: true });
  } catch {
    // A disk that refuses this must not prevent reading. The compactor tries again.
  }
}
