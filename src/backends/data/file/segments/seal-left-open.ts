/** Seals segments that processes left open when they died, and removes their temporary files. */
import fs from 'node:fs';
import { type Layout, segmentPath } from '../layout.ts';
import { isMakerDead, isNamedMakerDead } from './maker.ts';

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
