/** Temporary files in memory, where flushes take no time: for a test whose subject is not a disk, and whose stores flush each commit. */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const inMemory = '/dev/shm';
const roomBytes = 2 * 1024 ** 3;

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(inMemory);
    return bavail * bsize >= roomBytes;
  } catch {
    return false;
  }
}

/**
 * From now on temporary files of this process are in a folder in memory, or on disk where the machine has no such folder with room.
 * @returns what removes the folder
 */
export function useMemoryDisk(): () => void {
  const folder = mkdtempSync(join(hasRoom() ? inMemory : tmpdir(), 'sluice-test-'));
  process.env['TMPDIR'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
