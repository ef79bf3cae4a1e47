/** SQLite of Node, in WAL mode: readers do not wait for writers, and several processes may share the file. */
import { chmodSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { Sql, SqlRow, SqlValue } from './sqlite.ts';

export interface NodeSqliteOptions {
  readonly path: string;
  /** False acknowledges a commit before it is on disk: a power cut may lose the latest commits, in order. */
  readonly durable: boolean;
}

const usedBytes =
  'SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size';
/** How long a writer waits for the write lock of another process. The wait blocks the event loop. */
const busyMs = 10_000;

export function openNodeSqlite({ path, durable }: NodeSqliteOptions): Sql {
  const database = new DatabaseSync(path, { timeout: busyMs });
  chmodSync(path, 0o600);
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${durable ? 'FULL' : 'OFF'}`);
  const statements = new Map<string, StatementSync>();
  function* exec(text: string, ...params: readonly SqlValue[]): Generator<SqlRow> {
    const statement = statements.get(text) ?? database.prepare(text);
    statements.set(text, statement);
    try {
      yield* statement.iterate(...params) as Iterable<SqlRow>;
    } catch (cause) {
      // Node reports the failure of a statement once more when it is used again.
      statements.delete(text);
      throw cause;
    }
  }
  const one = (text: string): unknown => Object.values([...exec(text)][0] ?? {})[0];
  return {
    version: String(one('SELECT sqlite_version()')),
    exec,
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
    usedBytes: () => Number(one(usedBytes)),
    close: () => database.close(),
  };
}
