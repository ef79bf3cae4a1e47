/** SQLite of Node, in WAL mode: readers do not wait for writers, and several processes may share the file. */
import { chmodSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { Sql } from './sqlite.ts';

export interface NodeSqliteOptions {
  readonly path: string;
  /** False acknowledges a commit before it is on disk: a power cut may lose the latest commits, in order. */
  readonly durable: boolean;
}

/** How long a writer waits for the write lock of another process. The wait blocks the event loop. */
const busyMs = 10_000;

export function openNodeSqlite({ path, durable }: NodeSqliteOptions): Sql {
  const database = new DatabaseSync(path, { timeout: busyMs });
  chmodSync(path, 0o600);
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${durable ? 'FULL' : 'OFF'}`);
  const statements = new Map<string, StatementSync>();
  const statement = (text: string): StatementSync => {
    let known = statements.get(text);
    if (known === undefined) {
      known = database.prepare(text);
      statements.set(text, known);
    }
    return known;
  };
  const one = (text: string): unknown => Object.values(statement(text).get() ?? {})[0];
  return {
    version: String(one('SELECT sqlite_version()')),
    *exec(text, ...params) {
      try {
        yield* statement(text).iterate(...params) as Iterable<Record<string, unknown>>;
      } catch (cause) {
        // Node reports the failure of a statement once more when it is used again.
        statements.delete(text);
        throw cause;
      }
    },
    transact(work) {
      database.exec('BEGIN IMMEDIATE');
      try {
        const result = work();
        database.exec('COMMIT');
        return result;
      } catch (cause) {
        // On a full disk SQLite has already rolled it back.
        if (database.isTransaction) database.exec('ROLLBACK');
        throw cause;
      }
    },
    usedBytes: () =>
      (Number(one('PRAGMA page_count')) - Number(one('PRAGMA freelist_count'))) *
      Number(one('PRAGMA page_size')),
    close: () => database.close(),
  };
}
