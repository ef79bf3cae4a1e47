/** A secret's file that is written once, by the process that comes first; readers never see half of it. */
import { randomUUID } from 'node:crypto';
import { link, mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Writes the whole file under a temporary name, then links it: the first link wins, and no reader sees half of it.
 * @returns whether this call wrote it; false where it existed already
 */
export async function keepFile(path: string, text: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomUUID()}`;
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await link(draft, path);
    await syncDirectory(dirname(path));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await file.close().catch(() => {});
    await rm(draft, { force: true });
  }
}

/** A name is on the disk only when its directory is. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
