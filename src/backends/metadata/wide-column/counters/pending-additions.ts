/**
 * Whether a commit that has applied has yet to make an addition to a counter: its gateway died, or is slow, between the commit and its side
 * changes. Every attempt is recorded in a lane of its epoch, with its side changes, before it can apply. So the attempts are read first and
 * the additions afterwards: an attempt that has applied and whose addition is missing has yet to make it.
 */
import type { AnyTable, At } from '../../../../ports/metadata-store.ts';
import type { Intents, Unsettled } from '../intents.ts';
import type { TableIn, Tables } from '../schema/tables.ts';
import type { Session, Statement } from '../session/session.ts';
import { countersIn, isFolded, nameOf } from './counters.ts';

export interface PendingPorts {
  readonly session: Pick<Session, 'readAll'>;
  readonly tables: Tables;
  readonly intents: Pick<Intents, 'unsettled'>;
}

interface Partition {
  readonly table: TableIn;
  readonly place: readonly unknown[];
}

export async function hasPendingAdditions(ports: PendingPorts, at: At<AnyTable>): Promise<boolean> {
  const table = ports.tables.of(at.table);
  const partitions = Array.from({ length: table.rows.ways(at) }, (_, shard) => ({
    table,
    place: table.rows.place(at, shard),
  }));
  const owing: { readonly partition: Partition; readonly name: string; readonly attempt: Unsettled }[] = [];
  for await (const attempt of ports.intents.unsettled())
    for (const partition of partitions)
      for (const name of namesIn(partition, attempt.side)) owing.push({ partition, name, attempt });
  for (const partition of partitions) {
    const mine = owing.filter((each) => each.partition === partition);
    if (mine.length === 0) continue;
    const isMade = await madeIn(ports, partition);
    for (const { name, attempt } of mine) if (!isMade(name) && (await attempt.hasApplied())) return true;
  }
  return false;
}

/** Whether a commit that has applied has yet to put a row into a plain table: its attempt is recorded, and the row is missing. */
export async function hasPendingPuts(ports: PendingPorts, table: AnyTable): Promise<boolean> {
  const { put, get } = ports.tables.of(table).statements;
  const keyParams = get.split('?').length - 1;
  for await (const attempt of ports.intents.unsettled()) {
    for (const { query, params } of attempt.side) {
      if (query !== put) continue;
      const isThere = (await ports.session.readAll(get, params.slice(0, keyParams))).length > 0;
      if (!isThere && (await attempt.hasApplied())) return true;
    }
  }
  return false;
}

/** The names of the additions that some side changes make to a partition. */
function namesIn({ table, place }: Partition, side: readonly Statement[]): readonly string[] {
  const isMine = ({ query, params }: Statement): boolean =>
    query === table.counter.add && place.every((value, i) => String(value) === String(params[i]));
  // The row's key is between the partition and the name.
  return side.filter(isMine).map(({ params }) => String(params[place.length + 1]));
}

/** Whether an addition is in a partition, or part of a base now. */
async function madeIn(
  { session }: PendingPorts,
  { table, place }: Partition,
): Promise<(name: string) => boolean> {
  const counters = countersIn(await session.readAll(table.counter.all, [...place]));
  const names = new Set(counters.flatMap(({ additions }) => additions.map(nameOf)));
  return (name) => names.has(name) || counters.some(({ folded }) => isFolded(folded, name));
}
