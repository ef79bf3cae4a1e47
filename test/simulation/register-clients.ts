/** Clients who treat keys as registers, through whichever gateway they are given, and write down what they saw. */

import type { Action, Operation, Value } from '../support/linearizable.ts';
import { type Answer, type LoadClient, Unanswered } from '../support/load-client.ts';
import { md5Hex, seeded } from '../support/load-model.ts';
import type { RequestSpec } from '../support/sign.ts';

/** Keys that are in use at a time. */
const keysAtOnce = 3;
/** Then another key takes its place: the check of a history takes time that grows with it. */
const operationsPerKey = 150;
/** A request that nobody answered may still happen: many of them would make a key say little. */
const doubtsPerKey = 6;

/** What became of keys, each a register that began empty. */
export type Histories = Map<string, Operation[]>;

export interface Tally {
  answered: number;
  refused: number;
  won: number;
  unknown: number;
}

export class RegisterClients {
  readonly histories: Histories = new Map();
  readonly tally: Tally = { answered: 0, refused: 0, won: 0, unknown: 0 };
  readonly #pathOf: (key: string) => string;
  readonly #keys: string[] = [];
  readonly #doubts = new Map<string, number>();
  #made = 0;

  constructor(pathOf: (key: string) => string) {
    this.#pathOf = pathOf;
    for (let each = 0; each < keysAtOnce; each += 1) this.#keys.push(this.#freshKey());
  }

  #freshKey(): string {
    const key = `register-${this.#made++}`;
    this.histories.set(key, []);
    return key;
  }

  #pick(random: () => number): string {
    const slot = Math.floor(random() * keysAtOnce);
    const key = this.#keys[slot] as string;
    const isWornOut =
      (this.histories.get(key)?.length ?? 0) >= operationsPerKey ||
      (this.#doubts.get(key) ?? 0) >= doubtsPerKey;
    if (!isWornOut) return key;
    const fresh = this.#freshKey();
    this.#keys[slot] = fresh;
    return fresh;
  }

  /** Works until the signal aborts. @param client asked anew each time: gateways come and go */
  async work(
    client: () => LoadClient,
    { name, seed, signal }: { readonly name: string; readonly seed: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const random = seeded(seed);
    /** What it last saw in each key: what it will expect there. */
    const seen = new Map<string, Value>();
    for (let turn = 0; !signal.aborted; turn += 1) {
      const key = this.#pick(random);
      const body = `${name} ${turn}`;
      const { action, spec } = requestOf({ random, seen: seen.get(key), body, path: this.#pathOf(key) });
      const called = performance.now();
      const answer = await client()
        .send(spec)
        .catch((cause: unknown) => {
          if (!(cause instanceof Unanswered)) throw cause;
          return isRefusedConnection(cause) ? ('not sent' as const) : undefined;
        });
      const times = { called, returned: performance.now(), by: name };
      if (answer === 'not sent') {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      const saw = this.#note(key, action, { answer, times });
      if (saw !== nothingSeen) seen.set(key, saw);
    }
  }

  #note(
    key: string,
    action: Action,
    { answer, times }: { answer: Answer | undefined; times: Omit<Operation, 'action' | 'refused'> },
  ): Value | typeof nothingSeen {
    const history = this.histories.get(key) as Operation[];
    const status = answer?.status ?? 503;
    if (status >= 500) {
      // A read that failed says nothing; a write may have happened, or happen yet.
      if (action.do === 'read') return nothingSeen;
      this.tally.unknown += 1;
      this.#doubts.set(key, (this.#doubts.get(key) ?? 0) + 1);
      history.push({ ...times, action, returned: Number.POSITIVE_INFINITY });
      return nothingSeen;
    }
    // "Others are changing it": nothing was written, and nothing is said of what is there.
    if (status === 409) return nothingSeen;
    this.tally.answered += 1;
    if (action.do === 'read') {
      const saw = answer === undefined || status === 404 ? undefined : etagOf(answer);
      if (saw !== undefined && answer !== undefined && saw !== etagFor(answer.body))
        throw new Error(`${key}: the bytes are not those of its ETag ${saw}`);
      history.push({ ...times, action: { do: 'read', saw } });
      return saw;
    }
    const isRefused = action.if !== undefined && (status === 412 || status === 404);
    if (!isRefused && status !== 200 && status !== 204) throw new Error(`${key}: ${status} ${answer?.text}`);
    const told = answer === undefined || action.value === undefined ? action.value : etagOf(answer);
    if (!isRefused && told !== action.value) {
      // An unconditional write that lost its race is told the winner (docs/gaps.md, 7.1): it has only seen it.
      history.push({ ...times, action: { do: 'read', saw: told } });
      return told;
    }
    if (isRefused) this.tally.refused += 1;
    else if (action.if !== undefined) this.tally.won += 1;
    history.push({ ...times, action, refused: isRefused });
    return isRefused ? nothingSeen : action.value;
  }
}

const nothingSeen = Symbol('nothing seen');

/** Its gateway is dead: the request never was. */
const isRefusedConnection = ({ cause }: Unanswered): boolean =>
  (cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED';

const etagFor = (bytes: Uint8Array): string => `"${md5Hex(bytes)}"`;
const etagOf = (answer: Answer): string => String(answer.headers.etag);

/** A value is told by its ETag. */
function requestOf({
  random,
  seen,
  body,
  path,
}: {
  readonly random: () => number;
  readonly seen: Value;
  readonly body: string;
  readonly path: string;
}): { readonly action: Action; readonly spec: RequestSpec } {
  const dice = random();
  if (dice < 0.3) return { action: { do: 'read', saw: undefined }, spec: { path } };
  if (dice < 0.4) return { action: { do: 'write', value: undefined }, spec: { method: 'DELETE', path } };
  const value = etagFor(Buffer.from(body));
  const put = { method: 'PUT', path, body };
  if (dice < 0.55) return { action: { do: 'write', value }, spec: put };
  const action: Action = { do: 'write', value, if: { holds: seen } };
  const headers: Record<string, string> =
    seen === undefined ? { 'if-none-match': '*' } : { 'if-match': seen };
  return { action, spec: { ...put, headers } };
}
