/** Chooses the operation of a request from the table. */
import { fail } from '../../errors/refusal.ts';
import { dialects } from '../dialect.ts';
import type { Query } from '../request/wire.ts';
import {
  type Operation,
  type OperationName,
  operationNames,
  operations,
  subResources,
} from './operations.ts';
import type { Scope } from './request-line.ts';

interface Row {
  readonly name: OperationName;
  readonly at: string;
  readonly query: readonly { readonly name: string; readonly value: string | undefined }[];
  readonly headers: readonly string[];
  /** Sub-resource names that this row accounts for. */
  readonly known: Pick<ReadonlySet<string>, 'has'>;
}

const anything = { has: () => true };

function parseRow(name: OperationName): Row {
  const operation: Operation = operations[name];
  const [method, scope, ...marks] = operation.on.split(' ');
  const query = marks
    .filter((mark) => mark.startsWith('?'))
    .map((mark) => {
      const [queryName = '', value] = mark.slice(1).split('=');
      return { name: queryName, value };
    });
  return {
    name,
    at: `${method} ${scope}`,
    query,
    headers: marks.filter((mark) => mark.startsWith('+')).map((mark) => mark.slice(1)),
    known:
      operation.with === 'anything'
        ? anything
        : new Set([
            ...query.map((each) => each.name),
            ...(operation.with ?? []),
            ...(operation.about === 'version' ? ['versionId'] : []),
          ]),
  };
}

const rows = operationNames.map(parseRow);
const anyService = 'ANY service';
const weight = (row: Row): number => row.query.length + row.headers.length;

/** Rows by `<method> <scope>`, most specific first: a request is compared with a handful at most. */
const table: ReadonlyMap<string, readonly Row[]> = Map.groupBy(
  rows.filter(({ at }) => at !== anyService).sort((a, b) => weight(b) - weight(a)),
  (row) => row.at,
);

const actions: ReadonlyMap<string, OperationName> = new Map(
  rows.filter(({ at }) => at === anyService).map(({ name, query }) => [query[0]?.value ?? '', name]),
);

/** Pairs of rows that one request could ask for equally well. A test demands that there is none. */
export function ties(): readonly (readonly [OperationName, OperationName])[] {
  const marks = (row: Row): string =>
    [
      ...row.query.map(({ name, value }) => `?${name}=${value ?? ''}`),
      ...row.headers.map((name) => `+${name}`),
    ]
      .sort()
      .join(' ');
  return rows.flatMap((a, i) =>
    rows
      .slice(i + 1)
      .flatMap((b) => (a.at === b.at && marks(a) === marks(b) ? [[a.name, b.name] as const] : [])),
  );
}

/**
 * @param hasHeader whether the request has a header of its dialect, by bare name
 * @throws NotImplemented for a sub-resource that no matching row has, and for any unknown query name of a PUT or DELETE on a bucket,
 *   because it is not CreateBucket or DeleteBucket; else MethodNotAllowed
 */
export function select(
  method: string,
  scope: Scope,
  query: Query,
  hasHeader: (bareName: string) => boolean,
): OperationName {
  const isBucketWrite = scope === 'bucket' && method !== 'GET' && method !== 'HEAD';
  const found = table.get(`${method} ${scope}`)?.find((row) => matches(row, query, hasHeader));
  for (const [name] of query.pairs) {
    if (!found?.known.has(name) && (subResources.has(name) || (isBucketWrite && !isFree(name)))) {
      throw fail('NotImplemented', `${method} with ?${name} is not implemented at ${scope} scope`);
    }
  }
  if (found === undefined) throw fail('MethodNotAllowed', `${method} is not a method of this ${scope}`);
  return found.name;
}

/**
 * The operation of an action query.
 * @throws MissingAction, InvalidAction, MethodNotAllowed
 */
export function selectAction(method: string, action: string | undefined): OperationName {
  if (method !== 'GET' && method !== 'POST')
    throw fail('MethodNotAllowed', `${method} is not a method of action queries`);
  if (action === undefined) throw fail('MissingAction');
  const found = actions.get(action);
  if (found === undefined) throw fail('InvalidAction', `Could not find operation ${action.slice(0, 128)}.`);
  return found;
}

/** Parameters that sign a request or name its operation, and mean nothing more. */
const isFree = (name: string): boolean =>
  signing.has(name) || dialects.some(({ headerPrefix }) => name.toLowerCase().startsWith(headerPrefix));
const signing = new Set(['AWSAccessKeyId', 'Signature', 'Expires', 'x-id']);

/** In plain loops: a request for an object is held against every row of its method. */
function matches(row: Row, query: Query, hasHeader: (name: string) => boolean): boolean {
  for (const { name, value } of row.query) {
    const given = query.get(name);
    if (given === undefined || (value !== undefined && given !== value)) return false;
  }
  for (const name of row.headers) if (!hasHeader(name)) return false;
  return true;
}
