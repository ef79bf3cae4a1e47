/**
 * A commit: one conditional batch in one partition, whose outcome row records permanently that it applied, then the side changes, which any
 * process can make that finds the attempt in its intent.
 */

import { createHash } from 'node:crypto';
import { attemptEach } from '../../../base/concurrency.ts';
import { MultiKeyMutex } from '../../../base/mutex.ts';
import type {
  AnyTable,
  At,
  Change,
  CommitOptions,
  Outcome,
  Revision,
  SideChange,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { Columns } from '../key-order.ts';
import { changedRow } from '../rules.ts';
import type { Folds } from './counters.ts';
import type { Intents, Place } from './intents.ts';
import type { Placed } from './mover.ts';
import { isAlive, type RawRow } from './rows.ts';
import { ReadFailed, type Session, type Statement, UnknownOutcome } from './session.ts';
import { noteKey } from './shards.ts';
import type { TableIn, Tables } from './statements.ts';

/** Rounds against other writers, before the commit fails as busy. */
const attemptsMax = 20;
/** Failed commits that are settled before those that failed again, and how many at a time. */
const settledPerRound = 64;
const parallel = 8;
/** How long an outcome is stored: longer than any intent that may need it. */
const outcomeSeconds = 3 * 24 * 60 * 60;
/** Expired rows are hidden immediately, and removed by the cluster this much later, to allow for differing clocks. */
const expirySlackSeconds = 24 * 60 * 60;
/** Cassandra refuses to remove anything by itself after that: such a row stays there, hidden from its time on. */
const lastRemovalAt = Date.UTC(2038, 0, 19);
const noTtl = 0;

type Refused = Exclude<Outcome<AnyTable>, { applied: true }>;

interface CommitPorts {
  readonly session: Session;
  readonly tables: Tables;
  readonly intents: Intents;
  readonly folds: Folds;
  readonly random: Random;
  readonly now: () => Promise<number>;
  /** The shard of a commit about a text while its partition splits. */
  readonly placed: (at: At<AnyTable>, text: string) => Promise<Placed>;
}

interface Target {
  readonly at: At<AnyTable>;
  readonly table: TableIn;
  place: unknown[];
  /** The name of that place among all. */
  partition: string;
  /** The progress that the shard's split must still have, if it is splitting. */
  guard: Placed['guard'];
  readonly changes: readonly Change<AnyTable>[];
  readonly keys: readonly Buffer[];
  /** Revisions of expired rows, which count as absent: by position. */
  readonly expired: Map<number, string>;
}

export class Commits {
  readonly #ports: CommitPorts;
  /** Failed commits that had an op of their own, and how often each could not be settled. */
  readonly #unsettled = new Map<string, number>();
  #settling: Promise<void> | undefined;
  readonly #inTurn = new MultiKeyMutex();

  constructor(ports: CommitPorts) {
    this.#ports = ports;
  }

  async commit(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    { op, then = [] }: CommitOptions,
  ): Promise<Outcome<AnyTable>> {
    const { tables, intents, random } = this.#ports;
    const table = tables.of(at.table);
    if (at.table.kind === 'plain') return this.#commitPlain(at, changes, then);
    const keys = changes.map((change) => table.rows.key(at.in, changedRow(change)));
    if (new Set(keys.map((key) => key.toString('latin1'))).size < keys.length)
      throw new Error(`a commit changes a row of ${at.table.name} twice`);
    const target: Target = {
      at,
      table,
      place: [],
      partition: '',
      guard: undefined,
      changes,
      keys,
      expired: new Map(),
    };
    await this.#place(target);
    // Side changes need an intent that remembers them; so a commit without an op takes one for itself.
    const own = op === undefined && then.length > 0 ? await intents.own.begin() : undefined;
    const opId = (op ?? own)?.id;
    try {
      const id = opId ?? Buffer.from(random.bytes(16)).toString('hex');
      const outcome = await this.#tryAll(target, { id, opId, then });
      if (own !== undefined) intents.own.end(own.id);
      return outcome;
    } catch (cause) {
      if (own !== undefined) this.#unsettled.set(own.id, 0);
      throw cause;
    }
  }

  /** Settles failed commits that had an intent of their own: those that applied get their side changes, the others can never apply. */
  settleOwn(): Promise<void> {
    this.#settling ??= this.#settleSome().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  async #settleSome(): Promise<void> {
    const { intents } = this.#ports;
    // Those that failed least come first, because the others may wait for replicas that stay away for long.
    const due = [...this.#unsettled].sort(([, a], [, b]) => a - b).slice(0, settledPerRound);
    await attemptEach(parallel, due, async ([opId, failures]) => {
      this.#unsettled.set(opId, failures + 1);
      await intents.abort(opId);
      intents.own.end(opId);
      this.#unsettled.delete(opId);
    });
    // All were settled, so none of those behind them waits for what cannot be.
    if (due.length === settledPerRound) await this.#settleSome();
  }

  /** Finds the shard of the rows, which may be another one at the next attempt. */
  async #place(target: Target): Promise<void> {
    const { at, table, changes } = target;
    const [first] = changes;
    let shard = 0;
    if (first !== undefined && at.splittingTo === undefined)
      shard = table.rows.shardOf(at, changedRow(first));
    else if (first !== undefined)
      ({ shard, guard: target.guard } = await this.#ports.placed(at, table.rows.textOf(changedRow(first))));
    target.place = table.rows.place(at, shard);
    target.partition = [at.table.name, ...target.place].join('\0');
  }

  /** A plain table has no conditions: its changes are written together with side changes. */
  async #commitPlain(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    then: readonly SideChange[],
  ): Promise<Outcome<AnyTable>> {
    const all: SideChange[] = changes.map((change) =>
      'put' in change
        ? {
            at,
            put: change.put as object,
            ...(change.expiresAt === undefined ? {} : { expiresAt: change.expiresAt }),
          }
        : { at, remove: changedRow(change) },
    );
    return { applied: true, revision: (await this.#writePlain([...all, ...then])) as Revision };
  }

  async #tryAll(
    target: Target,
    {
      id,
      opId,
      then,
    }: { readonly id: string; readonly opId: string | undefined; readonly then: readonly SideChange[] },
  ): Promise<Outcome<AnyTable>> {
    const { session, intents, random } = this.#ports;
    for (let tries = 0; tries < attemptsMax; tries += 1) {
      if (tries > 0 && target.guard !== undefined) await this.#place(target);
      const attempt = `${id}/${Buffer.from(random.bytes(6)).toString('hex')}`;
      const place = attemptPlace(target, attempt);
      // Named after the attempt: an op may commit several times, and each adds for itself.
      const { statements: side, stamp } = await this.#aside(then, attempt);
      if (opId !== undefined && !(await intents.enter(opId, { attempt, place, side })))
        return { applied: false, because: 'abandoned' };
      const expired = (await this.#mayExpectExpired(target)) ? await this.#refusal(target) : undefined;
      if (expired !== undefined) return expired;
      const revision = formatRevision(attempt, target.changes);
      const now = await this.#ports.now();
      // A later commit that makes side changes to the same rows uses a later timestamp.
      await session.clock.passed(stamp);
      const isApplied = await this.#inTurn.run([target.partition], () =>
        session
          .decide([place.decide('applied'), ...buildConditions(target, { revision, now })])
          .catch((cause: unknown) => this.#whatBecame(place, cause)),
      );
      if (isApplied) {
        // Each by itself, which takes a round less than a logged batch: the attempt remembers them all.
        await Promise.all(side.map((statement) => session.write([statement])));
        return { applied: true, revision };
      }
      // A commit whose op was abandoned is refused. One without an answer, which was therefore barred, is retried.
      const refused = await this.#refusal(target);
      if (refused !== undefined) return refused;
    }
    throw new UnknownOutcome('too many others change the same partition');
  }

  /** A condition on a revision holds for a row that has expired since, too: then the rows are read first. */
  async #mayExpectExpired({ changes }: Target): Promise<boolean> {
    const expiries = changes.map(({ expect }) => expiryIn(expect)).filter((expiry) => expiry !== undefined);
    return expiries.length > 0 && Math.min(...expiries) <= (await this.#ports.now());
  }

  /** After a batch without an answer: reads it back, and blocks it if it has not been applied. */
  async #whatBecame(place: Place, cause: unknown): Promise<boolean> {
    if (!(cause instanceof UnknownOutcome)) throw cause;
    const { session } = this.#ports;
    for (let tries = 0; tries < 5; tries += 1) {
      const [row] = await session.read(place.ask.query, place.ask.params, { serial: true });
      if (row?.['row_outcome'] === 'applied') return true;
      if (row?.['row_outcome'] === 'aborted') return false;
      await session.decide([place.decide('aborted')]).catch((again: unknown) => {
        if (!(again instanceof UnknownOutcome)) throw again;
      });
    }
    throw cause;
  }

  /** Why a batch was refused, as the rows say now; undefined where by now it would not be. */
  async #refusal(target: Target): Promise<Refused | undefined> {
    const { at, table, place, changes, keys, expired } = target;
    const { session } = this.#ports;
    const now = await this.#ports.now();
    if (at.fence !== undefined) {
      const fence = await readFence(session, { table, place });
      if (fence !== at.fence) return { applied: false, because: 'fenced', fence };
    }
    for (const [i, change] of changes.entries()) {
      const [row] = await session.read(table.statements.get, [...place, keys[i]], { serial: true });
      const alive = isAlive(row, now) ? row : undefined;
      if (alive === undefined && row?.['row_rev']) expired.set(i, String(row['row_rev']));
      else expired.delete(i);
      if ((alive === undefined ? 'absent' : alive['row_rev']) === change.expect) continue;
      // The row may have moved meanwhile, so its absence here proves nothing.
      if (!(await this.#stands(target))) return undefined;
      if (alive === undefined) return { applied: false, because: 'conflict' };
      const current = table.rows.decode<never>(alive as RawRow, at.in as Columns);
      return { applied: false, because: 'conflict', current };
    }
    return undefined;
  }

  async #stands({ table, place, guard }: Target): Promise<boolean> {
    if (guard === undefined) return true;
    const params = [...place, noteKey('progress')];
    const [note] = await this.#ports.session.read(table.statements.note, params, { serial: true });
    return (note?.['row_rev'] ?? undefined) === guard.revision;
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    await this.#writePlain(changes);
  }

  /** Writes without conditions. @returns the name of the attempt */
  async #writePlain(changes: readonly SideChange[]): Promise<string> {
    const { session, intents, random } = this.#ports;
    // An addition belongs to an epoch, which tells a fold when it is final.
    const op = changes.some((change) => 'add' in change) ? await intents.own.begin() : undefined;
    const own = Buffer.from(random.bytes(16)).toString('hex');
    const name = op === undefined ? own : `${op.id}/${own}`;
    try {
      const { statements, stamp } = await this.#aside(changes, name);
      await session.write(statements);
      if (op !== undefined && !intents.own.holds(op.id))
        throw new UnknownOutcome('the process stood still for so long that its additions may not count');
      await session.clock.passed(stamp);
      return name;
    } finally {
      if (op !== undefined) intents.own.end(op.id);
    }
  }

  /** Each statement is safe to repeat at any time: it carries its stamp, so a later write of others stays. */
  async #aside(changes: readonly SideChange[], op: string): Promise<Aside> {
    const { session, tables } = this.#ports;
    const statements: Statement[] = [];
    let last = 0n;
    for (const [i, change] of changes.entries()) {
      const at = change.at as At<AnyTable>;
      const table = tables.of(at.table);
      const row = changedRow(change);
      const shard = table.rows.shardOf(at, row);
      const place = [...table.rows.place(at, shard), table.rows.key(at.in, row)];
      const stamp = await session.clock.stamp();
      if ('add' in change) {
        this.#ports.folds.note(at, { shard, additions: 1 });
        const values = table.rows.values({ ...change.add, ...change.by });
        // An addition under its own name conflicts with no other write.
        statements.push({ query: table.counter.add, params: [...place, `${op}#${i}`, ...values, stamp] });
        continue;
      }
      // Stamps of one process follow each other by themselves.
      if (at.table.log === undefined) last = stamp;
      if ('remove' in change) statements.push({ query: table.statements.remove, params: [stamp, ...place] });
      else {
        const { put, expiresAt } = change;
        const expires = expiresAt === undefined ? null : BigInt(Math.floor(expiresAt));
        const ttl = expiresAt === undefined ? noTtl : computeTtl(expiresAt, await this.#ports.now());
        const values = [...table.rows.values(put as Columns), op, expires];
        statements.push({ query: table.statements.put, params: [...place, ...values, stamp, ttl] });
      }
    }
    return { statements, stamp: last };
  }
}

/** No shard has this fence. */
const noFence = -1n;

/**
 * The read passes over all outcomes until it finds a row that has not expired. Some days after a large import they may all have expired,
 * and be more than Cassandra passes over. Then a condition that never holds returns the fence.
 */
export async function readFence(
  session: Pick<Session, 'read' | 'readCondition'>,
  { table: { statements }, place }: { readonly table: TableIn; readonly place: unknown[] },
): Promise<number> {
  const find = async (): Promise<RawRow | undefined> => {
    try {
      return (await session.read(statements.fence, place, { serial: true }))[0];
    } catch (cause) {
      if (!(cause instanceof ReadFailed)) throw cause;
      return session.readCondition({ query: statements.fenceIf, params: [null, ...place, noFence] });
    }
  };
  return Number((await find())?.['row_fence'] ?? 0);
}

/** Side changes as statements, and the last stamp of those that others may change too; 0 where there is none. */
interface Aside {
  readonly statements: readonly Statement[];
  readonly stamp: bigint;
}

function attemptPlace({ table, place }: Target, attempt: string): Place {
  const key = outcomeKey(attempt);
  return {
    decide: (outcome) => ({
      query: table.statements.outcomeIf,
      params: [outcomeSeconds, outcome, ...place, key],
    }),
    ask: { query: table.statements.outcome, params: [...place, key] },
  };
}

function buildConditions(
  target: Target,
  { revision, now }: { readonly revision: string; readonly now: number },
): Statement[] {
  const { at, table, place, guard, changes, keys, expired } = target;
  const { statements, rows } = table;
  const all: Statement[] = [];
  if (guard !== undefined) {
    const params = [...place, noteKey('progress'), guard.revision ?? null];
    all.push({ query: statements.noteStillIf, params });
  }
  if (at.fence !== undefined) {
    // A partition that was never fenced has generation 0.
    const expectedFence = at.fence === 0 ? null : BigInt(at.fence);
    all.push({ query: statements.fenceIf, params: [expectedFence, ...place, expectedFence] });
  }
  for (const [i, change] of changes.entries()) {
    const row = [...place, keys[i]];
    const expected = change.expect === 'absent' ? (expired.get(i) ?? null) : change.expect;
    if ('put' in change) {
      const { expiresAt } = change;
      const expires = expiresAt === undefined ? null : BigInt(Math.floor(expiresAt));
      const ttl = expiresAt === undefined ? noTtl : computeTtl(expiresAt, now);
      const params = [ttl, ...rows.values(change.put as Columns), revision, expires, ...row, expected];
      all.push({ query: statements.putIf, params });
    } else if ('remove' in change) all.push({ query: statements.removeIf, params: [...row, expected] });
    else all.push({ query: statements.checkIf, params: [...row, expected] });
  }
  return all;
}

/** For a commit whose rows expire it includes the earliest expiry. */
function formatRevision(attempt: string, changes: readonly Change<AnyTable>[]): Revision {
  const expiries = changes.flatMap((change) => ('put' in change ? (change.expiresAt ?? []) : []));
  const mark = expiries.length === 0 ? '' : `${expiryMark}${Math.floor(Math.min(...expiries))}`;
  return `${attempt}${mark}` as Revision;
}

const expiryMark = '~';
function expiryIn(revision: string): number | undefined {
  const at = revision.indexOf(expiryMark);
  return at < 0 ? undefined : Number(revision.slice(at + 1));
}

function computeTtl(expiresAt: number, now: number): number {
  const seconds = Math.max(1, Math.ceil((expiresAt - now) / 1000) + expirySlackSeconds);
  return now + seconds * 1000 < lastRemovalAt ? seconds : noTtl;
}

/** The key of a commit's outcome. */
const outcomeKey = (attempt: string): Buffer =>
  Buffer.concat([Buffer.of(outcomeMark), createHash('sha256').update(attempt).digest().subarray(0, 16)]);

const outcomeMark = 0;
