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
/** Then another key takes its place: the check of a history takes time that grows with it. */
const operationsPerKey = 150;
/** A request without an answer may still apply; many of them on one key would weaken the check. */
const doubtsPerKey = 6;

/** What became of keys, each a register that began empty. */
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
      // It was acknowledged: it happened, and the write that it names replaced it at once (docs/gaps.md, 7.1).
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

/** An engine or gateway that is away refuses the preparation of a request: the request is then never sent. */
function unprepared(cause: unknown): undefined {
  if (cause instanceof Unanswered || (cause instanceof Error && /: (503|409) /.test(cause.message)))
    return undefined;
  throw cause;
}

const nothingSeen = Symbol('nothing seen');

/** Its gateway is dead: the request never was. */
const isRefusedConnection = ({ cause }: Unanswered): boolean =>
  (cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED';
