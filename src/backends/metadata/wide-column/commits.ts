/**
 * What a commit does (design §5): one conditional batch in one partition, whose outcome row says for good that it
 * applied, then the side changes, which anybody can make who finds the attempt in its intent.
 */
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
import type { Columns } from '../order.ts';
import { keyOf } from '../rules.ts';
import type { Intents, Place } from './intents.ts';
import { isAlive, outcomeKey, type RawRow } from './rows.ts';
import { type Session, type Statement, UnknownOutcome } from './session.ts';
import type { TableIn, Tables } from './tables.ts';

/** Rounds against others, before the caller is told that the store is busy. */
const attemptsMax = 20;
/** How long an outcome is remembered: longer than any intent that may ask for it. */
const outcomeSeconds = 3 * 24 * 60 * 60;
/** Rows that expire are hidden at once and removed by the cluster this much later, whatever its clocks say. */
const expirySlackSeconds = 24 * 60 * 60;

type Refused = Exclude<Outcome<AnyTable>, { applied: true }>;

export interface CommitPorts {
  readonly session: Session;
  readonly tables: Tables;
  readonly intents: Intents;
  readonly random: Random;
  readonly now: () => Promise<number>;
}

interface Target {
  readonly at: At<AnyTable>;
  readonly table: TableIn;
  readonly place: unknown[];
  readonly changes: readonly Change<AnyTable>[];
  readonly keys: readonly Buffer[];
  /** Revisions of expired rows, which count as absent: by position. */
  readonly expired: Map<number, string>;
}

export class Commits {
  readonly #ports: CommitPorts;

  constructor(ports: CommitPorts) {
    this.#ports = ports;
  }

  async commit(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    { op, then = [] }: CommitOptions,
  ): Promise<Outcome<AnyTable>> {
    const { tables, intents, random } = this.#ports;
    const table = await tables.of(at.table);
    if (at.table.kind === 'plain') return this.#commitPlain(at, changes, { opId: op?.id, then });
    const [first] = changes;
    const shard = first === undefined ? 0 : table.rows.shardOf(at, keyOf(first));
    const keys = changes.map((change) => table.rows.key(at.in, keyOf(change)));
    if (new Set(keys.map((key) => key.toString('latin1'))).size < keys.length)
      throw new Error(`a commit changes a row of ${at.table.name} twice`);
    const target: Target = {
      at,
      table,
      place: table.rows.place(at, shard),
      changes,
      keys,
      expired: new Map(),
    };
    // Side changes need an intent that remembers them; so a commit without an op takes one for itself.
    const own = op === undefined && then.length > 0 ? await intents.begin() : undefined;
    const opId = (op ?? own)?.id;
    try {
      const id = opId ?? Buffer.from(random.bytes(16)).toString('hex');
      return await this.#tryAll(target, { id, opId, then });
    } finally {
      if (own !== undefined) intents.end(own.id);
    }
  }

  /** A plain table takes what it is given; the commit may still carry an op, and side changes. */
  async #commitPlain(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    { opId, then }: { readonly opId: string | undefined; readonly then: readonly SideChange[] },
  ): Promise<Outcome<AnyTable>> {
    const all: SideChange[] = changes.map((change) =>
      'put' in change
        ? {
            at,
            put: change.put as object,
            ...(change.expiresAt === undefined ? {} : { expiresAt: change.expiresAt }),
          }
        : { at, remove: keyOf(change) },
    );
    const id = opId ?? Buffer.from(this.#ports.random.bytes(16)).toString('hex');
    await this.#ports.session.write(await this.#sideStatements([...all, ...then], id));
    return { applied: true, revision: id as Revision };
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
      const attempt = `${id}/${Buffer.from(random.bytes(6)).toString('hex')}`;
      const place = placeOf(target, attempt);
      // Named after the attempt: an op may commit several times, and each adds for itself.
      const side = await this.#sideStatements(then, attempt);
      if (opId !== undefined && !(await intents.enter(opId, { attempt, place, side })))
        return { applied: false, because: 'abandoned' };
      const isApplied = await session
        .decide([place.decide('applied'), ...conditionsOf(target, attempt)])
        .catch((cause: unknown) => this.#whatBecame(place, cause));
      if (isApplied) {
        await session.write(side);
        return { applied: true, revision: attempt as Revision };
      }
      if (opId !== undefined && (await this.#isAborted(place)))
        return { applied: false, because: 'abandoned' };
      const refused = await this.#refusal(target);
      if (refused !== undefined) return refused;
    }
    throw new UnknownOutcome('too many others change the same partition');
  }

  /** Of a batch that nobody answered: it is read back, and where it has not happened it is kept from happening. */
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

  async #isAborted({ ask }: Place): Promise<boolean> {
    const [row] = await this.#ports.session.read(ask.query, ask.params, { serial: true });
    return row?.['row_outcome'] === 'aborted';
  }

  /** Why a batch was refused, as the rows say now; undefined where by now it would not be. */
  async #refusal({ at, table, place, changes, keys, expired }: Target): Promise<Refused | undefined> {
    const { session } = this.#ports;
    const now = await this.#ports.now();
    if (at.fence !== undefined) {
      const [row] = await session.read(table.statements.fence, place, { serial: true });
      const fence = Number(row?.['row_fence'] ?? 0);
      if (fence !== at.fence) return { applied: false, because: 'fenced', fence };
    }
    for (const [i, change] of changes.entries()) {
      const [row] = await session.read(table.statements.get, [...place, keys[i]], { serial: true });
      const alive = isAlive(row, now) ? row : undefined;
      if (alive === undefined && row?.['row_rev']) expired.set(i, String(row['row_rev']));
      else expired.delete(i);
      if ((alive === undefined ? 'absent' : alive['row_rev']) === change.expect) continue;
      if (alive === undefined) return { applied: false, because: 'conflict' };
      const current = table.rows.decode<never>(alive as RawRow, at.in as Columns);
      return { applied: false, because: 'conflict', current };
    }
    return undefined;
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    const id = Buffer.from(this.#ports.random.bytes(16)).toString('hex');
    await this.#ports.session.write(await this.#sideStatements(changes, id));
  }

  /** Each safe to repeat at any time: they carry one stamp, so a later write of others stays. */
  async #sideStatements(changes: readonly SideChange[], op: string): Promise<readonly Statement[]> {
    if (changes.length === 0) return [];
    const { session, tables } = this.#ports;
    const now = await this.#ports.now();
    const statements: Statement[] = [];
    for (const [i, change] of changes.entries()) {
      const at = change.at as At<AnyTable>;
      const table = await tables.of(at.table);
      const row = keyOf(change);
      const place = table.rows.place(at, table.rows.shardOf(at, row));
      const key = table.rows.key(at.in, row);
      const stamp = await session.stamp();
      if ('remove' in change)
        statements.push({ query: table.statements.remove, params: [stamp, ...place, key] });
      else if ('add' in change) {
        const values = table.rows.values({ ...change.add, ...change.by });
        statements.push({
          query: table.counter.add,
          params: [...place, key, `${op}#${i}`, ...values, stamp],
        });
      } else {
        const { put, expiresAt } = change;
        const values = [
          ...table.rows.values(put as Columns),
          op,
          expiresAt === undefined ? null : BigInt(Math.floor(expiresAt)),
        ];
        const params = [...place, key, ...values, stamp, ttlOf(expiresAt, now)];
        statements.push({ query: table.statements.put, params });
      }
    }
    return statements;
  }
}

function placeOf({ table, place }: Target, attempt: string): Place {
  const key = outcomeKey(attempt);
  return {
    decide: (outcome) => ({
      query: table.statements.outcomeIf,
      params: [outcomeSeconds, outcome, ...place, key],
    }),
    ask: { query: table.statements.outcome, params: [...place, key] },
  };
}

function conditionsOf({ at, table, place, changes, keys, expired }: Target, revision: string): Statement[] {
  const { statements, rows } = table;
  const all: Statement[] = [];
  if (at.fence !== undefined) {
    // A partition that was never fenced stands at 0.
    const believed = at.fence === 0 ? null : BigInt(at.fence);
    all.push({ query: statements.fenceIf, params: [believed, ...place, believed] });
  }
  for (const [i, change] of changes.entries()) {
    const row = [...place, keys[i]];
    const expected = change.expect === 'absent' ? (expired.get(i) ?? null) : change.expect;
    if ('put' in change) {
      const expires = change.expiresAt === undefined ? null : BigInt(Math.floor(change.expiresAt));
      const params = [0, ...rows.values(change.put as Columns), revision, expires, ...row, expected];
      all.push({ query: statements.putIf, params });
    } else if ('remove' in change) all.push({ query: statements.removeIf, params: [...row, expected] });
    else all.push({ query: statements.checkIf, params: [...row, expected] });
  }
  return all;
}

const ttlOf = (expiresAt: number | undefined, now: number): number =>
  expiresAt === undefined ? 0 : Math.max(1, Math.ceil((expiresAt - now) / 1000) + expirySlackSeconds);
