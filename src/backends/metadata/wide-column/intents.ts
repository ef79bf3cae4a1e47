/**
 * Epochs in Cassandra. Before an op commits, its attempt is entered in one of its epoch's lanes, with the place where its
 * outcome will be found and the side changes to make if it applied. A sweep bars the lanes of a dead process's epoch, then
 * settles every attempt: it puts `aborted` where the outcome belongs, or finds `applied` there and makes the side changes
 * (docs/adr/0008). Lanes are many so that the commits of a process do not take turns at one partition.
 */

import { attemptEach } from '../../../base/concurrency.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import {
  type EpochRows,
  Epochs,
  epochState,
  isOpId,
  parseCounter,
  parseEpoch,
  secondLookMs,
  stampAfter,
  stampAt,
} from '../epochs.ts';
import { type Session, type Statement, UnknownOutcome } from './session.ts';

const lanes = 64;
/** All leases are in one partition: they are few, and a sweep reads all of them. */
const slot = 0;
/** An attempt is of no use any more once its epoch was swept twice. */
const attemptSeconds = 3 * 24 * 60 * 60;
const parallel = 8;
/** Attempts at a conditional statement whose outcome stays unknown. */
const unknownMax = 5;
/** A floor stays this far behind the clock, so that epochs that are being opened need no other name. */
const floorLagMs = 1000;
const exceptMax = 256;
/** Each attempt fails only if another process raises the floor at the same time. */
const openTriesMax = 20;

const { open, marked, settled, markedAgain } = epochState;

/** Where the outcome of an attempt is decided, by a conditional statement, and the query that reads it. */
export interface Place {
  readonly decide: (outcome: string) => Statement;
  readonly ask: Statement;
}

interface Lease {
  readonly id: string;
  readonly until: number;
  readonly state: number;
}

interface IntentPorts {
  readonly session: Session;
  readonly keyspace: string;
  readonly clock: Clock;
  /** The store's clock: leases are judged by it. */
  readonly now: () => Promise<number>;
  readonly random: Random;
  readonly ttlMs: number;
  /** Receives what failed for some epochs only. */
  readonly onFailure?: (cause: unknown) => void;
}

/** The attempt under which an op is barred; sorts before its real ones. */
const barName = (opId: string): string => `${opId}!`;

export class Intents {
  readonly #ports: IntentPorts;
  /** The epochs of this process. */
  readonly own: Epochs;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
    this.own = new Epochs({ ...ports, rows: this.#rows() });
  }

  #rows(): EpochRows {
    const { session } = this.#ports;
    const table = this.#table('epochs');
    const row = 'WHERE slot = ? AND id = ?';
    return {
      open: (id) => this.#open(id),
      remove: async (id) => {
        await session.decide([
          { query: `DELETE FROM ${table} ${row} IF state = ?`, params: [slot, id, open] },
        ]);
      },
      renew: async (epochs) => {
        const until = await this.#until();
        const query = `UPDATE ${table} SET until = ? ${row} IF state = ?`;
        const lost: string[] = [];
        for (const id of epochs)
          if (!(await session.decide([{ query, params: [until, slot, id, open] }]))) lost.push(id);
        return lost;
      },
    };
  }

  /** Above the floor, whatever this gateway's clock is: additions below it are folded (`done`). */
  async #open(id: string): Promise<string> {
    const { session } = this.#ports;
    const query = `UPDATE ${this.#table('epochs')} SET until = ?, state = ? WHERE slot = ? AND id = ? IF state = null AND floor = ?`;
    for (let tries = 0; tries < openTriesMax; tries += 1) {
      const floor = await this.#floor();
      const name = floor !== null && id <= floor ? stampAfter(floor, id) : id;
      try {
        if (await session.decide([{ query, params: [await this.#until(), open, slot, name, floor] }]))
          return name;
      } catch (cause) {
        if (!(cause instanceof UnknownOutcome)) throw cause;
        if ((await this.#lease(name)) !== undefined) return name;
      }
    }
    throw new UnknownOutcome('the cluster does not open an epoch');
  }

  async #floor(): Promise<string | null> {
    const query = `SELECT floor FROM ${this.#table('epochs')} WHERE slot = ? LIMIT 1`;
    const [row] = await this.#ports.session.read(query, [slot], { serial: true });
    return (row?.['floor'] as string | null | undefined) ?? null;
  }

  /**
   * The epochs under which no side change is made any more, as those below a floor but for some. The floor is raised first,
   * and no process opens an epoch below it; so what is found open after that is all there is.
   * @returns undefined where another process is raising it
   */
  async done(): Promise<Folded | undefined> {
    const { session } = this.#ports;
    const before = await this.#floor();
    const target = stampAt((await this.#ports.now()) - floorLagMs);
    const floor = before !== null && before >= target ? before : target;
    if (floor !== before) {
      const query = `UPDATE ${this.#table('epochs')} SET floor = ? WHERE slot = ? IF floor = ?`;
      const isRaised = await session.decide([{ query, params: [floor, slot, before] }]).catch(() => false);
      if (!isRaised) return undefined;
    }
    const leases = await this.#leases();
    const undone = leases.filter(({ state, id }) => (state === open || state === marked) && id < floor);
    const ids = undone.map(({ id }) => id).sort();
    // More than the maximum of a page waits for the next one.
    return { below: ids[exceptMax] ?? floor, except: ids.slice(0, exceptMax) };
  }

  async #until(): Promise<bigint> {
    return wholeMs((await this.#ports.now()) + this.#ports.ttlMs);
  }

  /**
   * Enters an attempt to commit under an op. From then on every process that finds the op abandoned can settle it.
   * @returns false where the op may not commit any more
   */
  async enter(
    opId: string,
    {
      attempt,
      place,
      side,
    }: { readonly attempt: string; readonly place: Place; readonly side: readonly Statement[] },
  ): Promise<boolean> {
    const lane = [parseEpoch(opId), parseCounter(opId) % lanes];
    const table = this.#table('epoch_lanes');
    const where = 'WHERE epoch = ? AND lane = ?';
    const written = writeStatements([place.decide('aborted'), place.ask]);
    const statements = [
      { query: `UPDATE ${table} SET state = null ${where} IF state = null`, params: lane },
      {
        query: `UPDATE ${table} SET side = null ${where} AND attempt = ? IF place = null`,
        params: [...lane, barName(opId)],
      },
      {
        query: `UPDATE ${table} USING TTL ? SET place = ?, side = ? ${where} AND attempt = ? IF place = null`,
        params: [attemptSeconds, written, writeStatements(side), ...lane, attempt],
      },
    ];
    for (let tries = 0; tries < unknownMax; tries += 1) {
      try {
        return await this.#ports.session.decide(statements);
      } catch (cause) {
        if (!(cause instanceof UnknownOutcome)) throw cause;
        // After this read an absent row stays absent, so it may be read again.
        if ((await this.#attempts(lane, attempt)).length > 0) return true;
      }
    }
    throw new UnknownOutcome('the cluster does not say whether it has an attempt');
  }

  /** On its return no commit under the op can apply any more, and one that did has made its side changes. */
  async abort(opId: string): Promise<void> {
    this.own.abort(opId);
    const lane = [parseEpoch(opId), parseCounter(opId) % lanes];
    const query = `UPDATE ${this.#table('epoch_lanes')} SET place = ? WHERE epoch = ? AND lane = ? AND attempt = ? IF place = null`;
    await this.#certainly(
      { query, params: ['aborted', ...lane, barName(opId)] },
      async () => (await this.#attempts(lane, barName(opId))).length > 0,
    );
    for (const attempt of await this.#attempts(lane)) {
      if (attempt.name.startsWith(`${opId}/`)) await this.#settleAttempt(attempt);
    }
  }

  async isOpen(opId: string): Promise<boolean> {
    if (!isOpId(opId) || this.own.hasEnded(opId)) return false;
    const state = (await this.#lease(parseEpoch(opId)))?.state;
    // While an epoch is being marked, not all of its lanes are barred yet.
    if (state === undefined || state === settled) return false;
    const lane = [parseEpoch(opId), parseCounter(opId) % lanes];
    const attempts = await this.#attempts(lane);
    if (!attempts.some(({ name }) => name === barName(opId))) return true;
    // Bar it first and settle its attempts afterwards: an attempt that was recorded before the bar may still apply.
    for (const attempt of attempts)
      if (attempt.name.startsWith(`${opId}/`) && (await this.#outcomeOf(attempt)) === null) return true;
    return false;
  }

  /** The attempts of epochs under which side changes may still be made, and that some process has not settled. */
  async *unsettled(): AsyncGenerator<Unsettled> {
    for (const { id, state } of await this.#leases()) {
      if (state !== open && state !== marked) continue;
      for (let lane = 0; lane < lanes; lane += 1)
        for (const attempt of await this.#attempts([id, lane]))
          yield {
            side: attempt.side === null ? [] : readStatements(attempt.side),
            hasApplied: async () => (await this.#outcomeOf(attempt)) === 'applied',
          };
    }
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const { onFailure } = this.#ports;
    const now = await this.#ports.now();
    const found: string[] = [];
    const isLapsed = ({ state, until }: Lease): boolean =>
      state === marked || state === markedAgain || until <= now;
    try {
      await attemptEach(1, (await this.#leases()).filter(isLapsed), async (lease) => {
        if (await this.#mark(lease)) found.push(lease.id);
      });
    } catch (cause) {
      // The epochs that were marked are swept now, and the next sweep tries the others again.
      if (found.length === 0) throw cause;
      onFailure?.(cause);
    }
    this.own.lose(found);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  /** On its return nothing can be committed under the epoch, and every attempt under it is settled. */
  async #mark({ id, until, state }: Lease): Promise<boolean> {
    const next = state === settled || state === markedAgain ? markedAgain : marked;
    if (state !== next) {
      const query = `UPDATE ${this.#table('epochs')} SET state = ? WHERE slot = ? AND id = ? IF state = ? AND until = ?`;
      const params = [next, slot, id, state, BigInt(until)];
      // Renewed since it was read, or owned by another process by now: the next sweep reads it again.
      if (!(await this.#ports.session.decide([{ query, params }]))) return false;
    }
    const all = Array.from({ length: lanes }, (_, lane) => lane);
    await attemptEach(parallel, all, (lane) => this.#bar(id, lane));
    return true;
  }

  async #bar(epoch: string, lane: number): Promise<void> {
    const query = `UPDATE ${this.#table('epoch_lanes')} SET state = ? WHERE epoch = ? AND lane = ? IF state = null`;
    // Refused means that it is barred already.
    await this.#certainly({ query, params: [marked, epoch, lane] }, async () => false);
    await attemptEach(1, await this.#attempts([epoch, lane]), (attempt) => this.#settleAttempt(attempt));
  }

  /** `aborted`, `applied`, or null where nothing was decided yet. */
  async #outcomeOf({ place }: Attempt): Promise<unknown> {
    if (place === 'aborted' || place === null) return 'aborted';
    const [, ask] = readStatements(place) as [Statement, Statement];
    return this.#outcome(ask);
  }

  async #settleAttempt({ place, side }: Attempt): Promise<void> {
    if (place === 'aborted' || place === null) return;
    const [decide, ask] = readStatements(place) as [Statement, Statement];
    let outcome: unknown;
    await this.#certainly(decide, async () => {
      outcome = await this.#outcome(ask);
      return outcome !== null;
    });
    outcome ??= await this.#outcome(ask);
    if (outcome === 'applied' && side !== null) await this.#ports.session.write(readStatements(side));
  }

  async #outcome(ask: Statement): Promise<unknown> {
    const [row] = await this.#ports.session.read(ask.query, ask.params, { serial: true });
    return row?.['row_outcome'] ?? null;
  }

  /** Executes a conditional statement; repeats it where its outcome is unknown and `isDone` does not see it applied. */
  async #certainly(statement: Statement, isDone: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; tries < unknownMax; tries += 1) {
      try {
        await this.#ports.session.decide([statement]);
        return;
      } catch (cause) {
        if (!(cause instanceof UnknownOutcome)) throw cause;
        if (await isDone()) return;
      }
    }
    throw new UnknownOutcome('the cluster does not say what it decided');
  }

  async #attempts(lane: unknown[], attempt?: string): Promise<readonly Attempt[]> {
    const one = attempt === undefined ? '' : ' AND attempt = ?';
    const query = `SELECT attempt, place, side FROM ${this.#table('epoch_lanes')} WHERE epoch = ? AND lane = ?${one}`;
    const params = attempt === undefined ? lane : [...lane, attempt];
    const rows = await this.#ports.session.read(query, params, { serial: true });
    return rows
      .filter((row) => typeof row['place'] === 'string')
      .map((row) => ({
        name: String(row['attempt']),
        place: row['place'] as string | null,
        side: row['side'] as string | null,
      }));
  }

  async #leases(): Promise<readonly Lease[]> {
    const query = `SELECT id, until, state FROM ${this.#table('epochs')} WHERE slot = ?`;
    const rows = await this.#ports.session.read(query, [slot], { serial: true });
    return rows
      .filter((row) => row['state'] !== null)
      .map((row) => ({ id: String(row['id']), until: Number(row['until']), state: Number(row['state']) }));
  }

  async #lease(id: string): Promise<Lease | undefined> {
    return (await this.#leases()).find((lease) => lease.id === id);
  }

  async settle(intent: Abandoned): Promise<void> {
    const { session } = this.#ports;
    const id = parseEpoch(intent.prefix);
    const lease = await this.#lease(id);
    if (lease?.state === markedAgain) {
      const query = `DELETE FROM ${this.#table('epochs')} WHERE slot = ? AND id = ? IF state = ?`;
      await session.decide([{ query, params: [slot, id, markedAgain] }]);
    } else if (lease?.state === marked) {
      const until = wholeMs((await this.#ports.now()) + secondLookMs);
      const query = `UPDATE ${this.#table('epochs')} SET until = ?, state = ? WHERE slot = ? AND id = ? IF state = ?`;
      await session.decide([{ query, params: [until, settled, slot, id, marked] }]);
    }
  }

  #table(name: string): string {
    return `${this.#ports.keyspace}.${name}`;
  }
}

const wholeMs = (ms: number): bigint => BigInt(Math.floor(ms));

/** The additions in the base of a counter: all that sort below `below`, except those of epochs that were not done then. */
export interface Folded {
  readonly below: string;
  readonly except: readonly string[];
}

/** An attempt, with what is needed to find out whether its side changes were made. */
export interface Unsettled {
  readonly side: readonly Statement[];
  hasApplied(): Promise<boolean>;
}

interface Attempt {
  readonly name: string;
  readonly place: string | null;
  readonly side: string | null;
}

// Statements as text, so that any process can finish a commit that was cut short, without knowing its tables.

type Written = null | string | boolean | number | { readonly big: string } | { readonly bytes: string };

const write = (value: unknown): Written => {
  if (typeof value === 'bigint') return { big: String(value) };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') };
  return value as Written;
};
const read = (value: Written): unknown => {
  if (typeof value !== 'object' || value === null) return value;
  return 'big' in value ? BigInt(value.big) : Buffer.from(value.bytes, 'base64');
};

const writeStatements = (statements: readonly Statement[]): string =>
  JSON.stringify(statements.map(({ query, params }) => [query, params.map(write)]));

const readStatements = (text: string): Statement[] =>
  (JSON.parse(text) as readonly (readonly [string, readonly Written[]])[]).map(([query, params]) => ({
    query,
    params: params.map(read),
  }));
