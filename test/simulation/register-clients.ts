/** Clients that use keys as registers through a given gateway, and record the answers that they see. */

import type { Operation, Value } from '../support/linearizable.ts';
import { type Answer, type LoadClient, pathOf, Unanswered } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import {
  etagIn,
  etagOfBytes,
  etagOfPart,
  type Place,
  type Prepared,
  prepareRequest,
} from './register-requests.ts';

/** Keys that are in use at a time. */
const keysAtOnce = 3;
/** After so many operations another key takes its place, because a longer history takes longer to check. */
const operationsPerKey = 150;
/** A request without an answer may still apply; many of them on one key would weaken the check. */
const doubtsPerKey = 6;

/** The history of each key; each is a register that began empty. */
export type Histories = Map<string, Operation[]>;

export interface Tally {
  answered: number;
  refused: number;
  won: number;
  /** Writes that were acknowledged with the ETag of the one that replaced them. */
  replaced: number;
  unknown: number;
}

export class RegisterClients {
  readonly histories: Histories = new Map();
  readonly tally: Tally = { answered: 0, refused: 0, won: 0, replaced: 0, unknown: 0 };
  readonly #placeOf: (key: string) => Place;
  readonly #keys: string[] = [];
  readonly #doubts = new Map<string, number>();
  #made = 0;

  constructor(bucket: string) {
    this.#placeOf = (key) => ({ bucket, key, path: pathOf(bucket, key) });
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

  /** Works until the signal aborts. @param client is called before each request, because gateways are replaced */
  async work(
    client: () => LoadClient,
    { name, seed, signal }: { readonly name: string; readonly seed: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const random = seeded(seed);
    /** The last value that the client saw in each key, for its conditions. */
    const seen = new Map<string, Value>();
    for (let turn = 0; !signal.aborted; turn += 1) {
      const key = this.#pick(random);
      const body = `${name} ${turn}`;
      const chosen = client();
      const wanted = { random, place: this.#placeOf(key), seen: seen.get(key), body };
      const prepared = await prepareRequest(chosen, wanted).catch(unprepared);
      if (prepared === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      const { spec } = prepared;
      const called = performance.now();
      const answer = await chosen.send(spec).catch((cause: unknown) => {
        if (!(cause instanceof Unanswered)) throw cause;
        return isRefusedConnection(cause) ? ('not sent' as const) : undefined;
      });
      const times = { called, returned: performance.now(), by: name };
      if (answer === 'not sent') {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      const saw = this.#note(key, prepared, { answer, times });
      if (saw !== nothingSeen) seen.set(key, saw);
    }
  }

  #note(
    key: string,
    { action, spec }: Prepared,
    { answer, times }: { answer: Answer | undefined; times: Omit<Operation, 'action' | 'refused'> },
  ): Value | typeof nothingSeen {
    const history = this.histories.get(key) as Operation[];
    const status = answer?.status ?? 503;
    if (status >= 500) {
      // A failed read gives no information. A failed write may have applied, or may apply later.
      if (action.do === 'read') return nothingSeen;
      this.tally.unknown += 1;
      this.#doubts.set(key, (this.#doubts.get(key) ?? 0) + 1);
      history.push({ ...times, action, returned: Number.POSITIVE_INFINITY });
      return nothingSeen;
    }
    // 409 means that concurrent changes won: nothing was written, and the answer does not tell the present value.
    if (status === 409) return nothingSeen;
    this.tally.answered += 1;
    if (action.do === 'read') {
      const saw = answer === undefined || status === 404 ? undefined : etagIn(answer);
      if (saw !== undefined && answer !== undefined && spec.method !== 'HEAD') {
        const made = saw.endsWith('-1"') ? etagOfPart(answer.body) : etagOfBytes(answer.body);
        if (saw !== made) throw new Error(`${key}: the bytes are not those of its ETag ${saw}`);
      }
      history.push({ ...times, action: { do: 'read', saw } });
      return saw;
    }
    const isRefused = action.if !== undefined && (status === 412 || status === 404);
    if (!isRefused && status !== 200 && status !== 204) throw new Error(`${key}: ${status} ${answer?.text}`);
    const told = answer === undefined || action.value === undefined ? action.value : etagIn(answer);
    if (!isRefused && told !== action.value) {
      // The write was acknowledged: it applied, and the write that the answer names replaced it directly (docs/gaps.md, 7.1).
      this.tally.replaced += 1;
      history.push({ ...times, action, replacedBy: told });
      return told;
    }
    if (isRefused) this.tally.refused += 1;
    else if (action.if !== undefined) this.tally.won += 1;
    history.push({ ...times, action, refused: isRefused });
    return isRefused ? nothingSeen : action.value;
  }
}

/** While an engine or gateway is down, the preparation of a request may fail; the request is then not sent. */
function unprepared(cause: unknown): undefined {
  if (cause instanceof Unanswered || (cause instanceof Error && /: (503|409) /.test(cause.message)))
    return undefined;
  throw cause;
}

const nothingSeen = Symbol('nothing seen');

/** The gateway is dead, so the request was never sent. */
const isRefusedConnection = ({ cause }: Unanswered): boolean =>
  (cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED';
