/** A finding of fsck as a line of text. */
import { printable } from '../../base/text/printable.ts';
import type { FsckFinding } from '../../domain/storage/fsck/fsck.ts';
import type { Rebuilt } from '../../domain/storage/fsck/rebuild/rebuild.ts';

export function formatFinding({ kind, detail, ...place }: FsckFinding | Rebuilt): string {
  const where = Object.entries(place).map(([name, value]) => `${name}=${value}`);
  return printable([kind, ...where, detail].join('  '));
}
