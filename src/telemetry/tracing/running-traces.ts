/** The traces that are being recorded, the latest first. A list through the traces: a set would cost as much as the rest of a record. */

/** Traces that are remembered. A reader that never ends a body would keep its trace. */
const runningMax = 4_096;

/** The place of one in the list. */
export interface Place<T> {
  newer: T | undefined;
  older: T | undefined;
  isListed: boolean;
}

interface Listed<T> {
  readonly place: Place<T>;
}

export class RunningTraces<T extends Listed<T>> {
  #newest: T | undefined;
  #oldest: T | undefined;
  #size = 0;

  add(trace: T): void {
    const { place } = trace;
    place.isListed = true;
    place.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = trace;
    else this.#newest.place.newer = trace;
    this.#newest = trace;
    this.#size += 1;
    if (this.#size > runningMax) this.remove(this.#oldest as T);
  }

  remove({ place }: T): void {
    if (!place.isListed) return;
    const { newer, older } = place;
    if (newer === undefined) this.#newest = older;
    else newer.place.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.place.newer = newer;
    place.isListed = false;
    place.newer = undefined;
    place.older = undefined;
    this.#size -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let trace = this.#newest; trace !== undefined; trace = trace.place.older) yield trace;
  }
}
