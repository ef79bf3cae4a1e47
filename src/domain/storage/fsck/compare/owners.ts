/**
 * Checks that each extent has one owner. If bytes have two owners, deleting one removes the other's content; if the deletion queue
 * names bytes that a version owns, gc deletes them. Both are reported only where two reads of all rows that name the bytes return
 * the same revisions, so that the rows existed at one moment.
 */
import { queueAt } from '../../../../metadata/background/queues.ts';
import type { FsckRun, Mended } from '../findings.ts';
import { everyNaming, type Named, type Naming } from '../namings.ts';
import { passesFor, RepeatedIds } from '../repeated-ids.ts';

const passesMax = 1 << 12;

/** Walks over all rows that name extents: first finds ids that occur more than once, then the rows that name these. */
export class OwnersWalk {
  readonly #ids: number;
  #passes: number;
  #pass = 0;
  #repeated: RepeatedIds;
  #found: Map<string, Naming[]> | undefined;
  #rows: AsyncGenerator<Named>;

  constructor(run: FsckRun, ids: number) {
    this.#ids = ids;
    this.#passes = passesFor(ids);
    this.#repeated = this.#filter();
    this.#rows = everyNaming(run);
  }

  #filter(): RepeatedIds {
    return new RepeatedIds(this.#ids, { passes: this.#passes, pass: this.#pass });
  }

  /** @returns whether there is more */
  async check(run: FsckRun, count: number): Promise<boolean> {
    for (let seen = 0; seen < count; seen += 1) {
      run.signal.throwIfAborted();
      const { done, value } = await this.#rows.next();
      if (done === true) return this.#atTheEnd(run);
      this.#note(value);
    }
    return true;
  }

  #note({ extent: { id }, naming }: Named): void {
    if (this.#found === undefined) this.#repeated.add(id);
    if (this.#found === undefined || !this.#repeated.candidates.has(id)) return;
    const known = this.#found.get(id) ?? [];
    // The walk may have read a version twice, because it moved.
    if (known.length < namingsMax && !known.some(({ name }) => name === naming.name))
      this.#found.set(id, [...known, naming]);
  }

  async #atTheEnd(run: FsckRun): Promise<boolean> {
    const isLooking = this.#found === undefined;
    if (isLooking && this.#repeated.isOverfull && this.#passes < passesMax) {
      this.#passes *= 2;
      this.#pass = 0;
    } else if (isLooking && this.#repeated.candidates.size > 0) {
      this.#found = new Map();
    } else {
      for (const [id, namings] of this.#found ?? []) await judge(run, id, namings);
      this.#found = undefined;
      this.#pass += 1;
      if (this.#pass === this.#passes) return false;
    }
    if (this.#found === undefined) this.#repeated = this.#filter();
    this.#rows = everyNaming(run);
    return true;
  }
}

/** The largest number of rows that are reported for one extent. */
const namingsMax = 8;

async function judge(run: FsckRun, id: string, namings: readonly Naming[]): Promise<void> {
  if (namings.length < 2) return;
  const standing = await standingAtOnce(namings);
  const owners = standing.filter(({ queued }) => queued === undefined);
  const [first, ...others] = owners;
  if (first === undefined) return;
  if (others.length > 0) {
    const detail = `its bytes are those of another version or part too: ${others.map(placeText).join(', ')}`;
    await run.find({ kind: 'shared', detail, extent: id, ...first.place }, async () => ({
      left: unmendable,
    }));
  }
  for (const naming of standing) {
    if (naming.queued === undefined) continue;
    const detail = 'its bytes wait to be deleted, though a version or part owns them';
    await run.find({ kind: 'queued', detail, extent: id, ...first.place }, () => unqueue(run, naming));
  }
}

const unmendable = 'write one of them again from a copy, then delete the other';

/** The rows that were the same before and after all others were read. */
async function standingAtOnce(namings: readonly Naming[]): Promise<readonly Naming[]> {
  const standing: Naming[] = [];
  for (const naming of namings) if ((await naming.look()) !== undefined) standing.push(naming);
  const still: Naming[] = [];
  for (const naming of standing) if ((await naming.look()) !== undefined) still.push(naming);
  return still;
}

const placeText = ({ place }: Naming): string =>
  Object.entries(place)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

/** Other bytes that the row named are unowned now; the walk over the stored bytes handles them. */
async function unqueue({ metadata }: FsckRun, { queued }: Naming): Promise<Mended> {
  if (queued === undefined) return {};
  const { queue, slot, due, id } = queued;
  await metadata.apply([{ at: queueAt(queue, slot), remove: { due, id } }]);
  return { fixed: 'taken from the deletion queue' };
}
