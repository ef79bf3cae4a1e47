/** The traces that are being recorded, the latest first. A list through the traces: a set would cost as much as the rest of a record. */

/** Traces that are remembered. A reader that never ends a body would keep its trace. */
const runningMax = 4_096;

/** What the list keeps in its members. */
export interface Listed<T> {
  newer: T | undefined;
  older: T | undefined;
  isListed: boolean;
}

export class RunningTraces<T extends Listed<T>> {
  #newest: T | undefined;
  #oldest: T | undefined;
  #size = 0;

  add(trace: T): void {
    trace.isListed = true;
    trace.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = trace;
    else this.#newest.newer = trace;
    this.#newest = trace;
    this.#size += 1;
    if (this.#size > runningMax) this.remove(this.#oldest as T);
  }

  remove(trace: T): void {
    if (!trace.isListed) return;
    const { newer, older } = trace;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    trace.isListed = false;
    trace.newer = undefined;
    trace.older = undefined;
    this.#size -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let trace = this.#newest; trace !== undefined; trace = trace.older) yield trace;
  }
}
