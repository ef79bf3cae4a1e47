/**
 * An exact linearizability checker of registers (Wing and Gong's search, with Lowe's memoization): each operation takes effect at one
 * moment between its call and its return.
 */

/** The content of a register; undefined while it is empty. */
export type Value = string | undefined;

export type Action =
  | { readonly do: 'read'; readonly saw: Value }
  /** `if` is the required content of the register: a value, or nothing. Absent for an unconditional write. */
  | { readonly do: 'write'; readonly value: Value; readonly if?: { readonly holds: Value } };

export interface Operation {
  readonly action: Action;
  readonly called: number;
  /** Infinity for a request without an answer: it applied at any time since, or never. */
  readonly returned: number;
  /** The condition did not hold, so nothing was written. */
  readonly refused?: boolean;
  /**
   * The answer named this value of another unconditional write: that write comes directly after this one, or after others
   * that it replaced too, and before the return of this one.
   */
  readonly replacedBy?: Value;
  /** The client, for the message of a failure. */
  readonly by?: string;
}

const isAnswered = ({ returned }: Operation): boolean => returned < Number.POSITIVE_INFINITY;

/** The content after an operation on `held`; `impossible` if the recorded answer contradicts `held`. */
const impossible = Symbol('impossible');
function after({ action, refused = false }: Operation, held: Value): Value | typeof impossible {
  if (action.do === 'read') return action.saw === held ? held : impossible;
  const isAllowed = action.if === undefined || action.if.holds === held;
  if (isAllowed === refused) return impossible;
  return refused ? held : action.value;
}

/** The write that must come directly after a replaced one: it writes this value and was called before `by`. */
interface Owed {
  readonly value: Value;
  readonly by: number;
}

/** Whether an operation may follow a replaced write. */
function pays({ value, by }: Owed, { action, called, refused = false, replacedBy }: Operation): boolean {
  if (action.do === 'read' || refused) return false;
  if (replacedBy !== undefined) return replacedBy === value;
  return action.value === value && action.if === undefined && called <= by;
}

function owedAfter({ replacedBy, returned }: Operation, before: Owed | undefined): Owed | undefined {
  if (replacedBy === undefined) return undefined;
  return { value: replacedBy, by: Math.min(returned, before?.by ?? Number.POSITIVE_INFINITY) };
}

/** @returns undefined if the history is linearizable, otherwise the operations that block its longest valid prefix */
export function whyNotLinearizable(
  history: readonly Operation[],
  initial: Value = undefined,
): string | undefined {
  return new Search(history).from(initial);
}

class Search {
  readonly #operations: readonly Operation[];
  readonly #isDone: Uint8Array;
  readonly #seen = new Set<string>();
  /** Answered operations that have no place yet. */
  #left: number;
  /** All operations before this index have a place. */
  #first = 0;
  #deepest: { readonly left: number; readonly held: Value; readonly next: readonly Operation[] } | undefined;

  constructor(history: readonly Operation[]) {
    this.#operations = [...history].sort((a, b) => a.called - b.called);
    this.#isDone = new Uint8Array(history.length);
    this.#left = history.filter(isAnswered).length;
  }

  from(initial: Value): string | undefined {
    if (this.#place(initial)) return undefined;
    const { held, next = [] } = this.#deepest ?? {};
    const text = next.map((each) => `  ${describe(each)}`).join('\n');
    return `with ${JSON.stringify(held)} in the register, none of these can be next:\n${text}`;
  }

  /**
   * Finds a place for all operations that are left, when the register holds `held`.
   * @param owed undefined if any operation may follow
   */
  #place(held: Value, owed?: Owed): boolean {
    if (this.#left === 0 && owed === undefined) return true;
    const state = `${this.#state(held)}${owed === undefined ? '' : ` <${owed.by} ${owed.value}`}`;
    if (this.#seen.has(state)) return false;
    this.#seen.add(state);
    const next = this.#next();
    if (this.#deepest === undefined || this.#left < this.#deepest.left)
      this.#deepest = { left: this.#left, held, next: next.map((at) => this.#operations[at] as Operation) };
    for (const at of next) {
      const operation = this.#operations[at] as Operation;
      if (owed !== undefined && !pays(owed, operation)) continue;
      const held2 = after(operation, held);
      if (held2 === impossible) continue;
      const first = this.#first;
      this.#do(at, operation);
      if (this.#place(held2, owedAfter(operation, owed))) return true;
      this.#undo(at, operation, first);
    }
    return false;
  }

  /** The operations that may come next: called before any other remaining one returned. */
  #next(): number[] {
    let bound = Number.POSITIVE_INFINITY;
    const next: number[] = [];
    for (let at = this.#first; at < this.#operations.length; at += 1) {
      const { called, returned } = this.#operations[at] as Operation;
      if (called > bound) break;
      if (this.#isDone[at] === 1) continue;
      next.push(at);
      bound = Math.min(bound, returned);
    }
    return next.filter((at) => (this.#operations[at] as Operation).called <= bound);
  }

  #do(at: number, operation: Operation): void {
    this.#isDone[at] = 1;
    if (isAnswered(operation)) this.#left -= 1;
    while (this.#isDone[this.#first] === 1) this.#first += 1;
  }

  #undo(at: number, operation: Operation, first: number): void {
    this.#isDone[at] = 0;
    if (isAnswered(operation)) this.#left += 1;
    this.#first = first;
  }

  #state(held: Value): string {
    let done = '';
    let last = this.#operations.length;
    while (last > this.#first && this.#isDone[last - 1] === 0) last -= 1;
    for (let at = this.#first; at < last; at += 1) done += this.#isDone[at];
    return `${this.#first} ${done} ${held === undefined ? '' : `=${held}`}`;
  }
}

function describe({ action, called, returned, refused, replacedBy, by = '' }: Operation): string {
  const what =
    action.do === 'read'
      ? `read ${JSON.stringify(action.saw)}`
      : `write ${JSON.stringify(action.value)}${action.if === undefined ? '' : ` if ${JSON.stringify(action.if.holds)}`}`;
  const replaced = replacedBy === undefined ? '' : ` (replaced by ${JSON.stringify(replacedBy)})`;
  return `${by} ${what}${refused === true ? ' (refused)' : ''}${replaced} from ${called} to ${returned}`;
}
