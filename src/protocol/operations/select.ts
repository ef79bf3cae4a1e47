/** Chooses the operation of a request from the table. */
import { fail, type Refusal } from '../../base/errors.ts';
import { dialects } from '../dialect.ts';
import type { Query } from '../wire.ts';
import {
  type Operation,
  type OperationName,
  operationNames,
  operations,
  subResources,
} from './operations.ts';
import type { Scope } from './parameters.ts';

interface Row {
  readonly name: OperationName;
  readonly method: string;
  readonly scope: string;
  readonly at: string;
  readonly query: readonly { readonly name: string; readonly value: string | undefined }[];
  readonly headers: readonly string[];
  /** Sub-resource names that this row accounts for. */
  readonly known: Pick<ReadonlySet<string>, 'has'>;
  /** Why it is not served. */
  readonly leftOut: string | undefined;
}

const anything = { has: () => true };

function parseRow(name: OperationName): Row {
  const operation: Operation = operations[name];
  const [method = '', scope = '', ...marks] = operation.on.split(' ');
  const query = marks
    .filter((mark) => mark.startsWith('?'))
    .map((mark) => {
      const [queryName = '', value] = mark.slice(1).split('=');
      return { name: queryName, value };
    });
  return {
    name,
    method,
    scope,
    at: `${method} ${scope}`,
    leftOut: operation.leftOut,
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
 * The operation of a request. Query parameters that are no sub-resources choose nothing.
 * @param hasHeader whether the request has a header of its dialect, by bare name
 * @throws MethodNotAllowed with the methods of the resource; InvalidArgument and InvalidRequest for sub-resources that do not go
 *   together or belong elsewhere; NotImplemented for those that are left out
 */
export function select(
  method: string,
  scope: Scope,
  query: Query,
  hasHeader: (bareName: string) => boolean,
): OperationName {
  const found = table.get(`${method} ${scope}`)?.find((row) => matches(row, query, hasHeader));
  for (const [name, value] of query.pairs) {
    if (subResources.has(name) && !found?.known.has(name))
      throw refuseSubResource({ method, scope, name, value, found, query });
    if (!isRead(method) && misspelt.has(name.toLowerCase()) && !subResources.has(name))
      throw invalidArgument(name, value, `The name of a sub-resource is in another case: ${name}.`);
  }
  if (found === undefined) {
    const plain = rows.filter((row) => row.scope === scope && row.query.length === 0);
    throw notAllowed(method, scope.toUpperCase(), plain);
  }
  return found.name;
}

const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
/** `DELETE ?Policy` is more likely a mistake than a request to delete the bucket. */
const misspelt: ReadonlySet<string> = new Set([...subResources].map((name) => name.toLowerCase()));

interface Misplaced {
  readonly method: string;
  readonly scope: Scope;
  readonly name: string;
  readonly value: string;
  /** The row that the request matches without this sub-resource. */
  readonly found: Row | undefined;
  readonly query: Query;
}

/** Why a sub-resource is not one of the request's operation, in the words of the public service. */
function refuseSubResource({ method, scope, name, value, found, query }: Misplaced): Refusal {
  if (name === 'versionId')
    return invalidArgument(name, value, 'This operation does not accept a version-id.');
  const chosen = found?.query.find((mark) => mark.name !== name)?.name;
  if (chosen !== undefined)
    return invalidArgument(
      'ResourceType',
      chosen,
      `Conflicting query string parameters: ${[chosen, name].sort().join(', ')}`,
    );
  const having = rows.filter((row) => row.scope === scope && row.query.some((mark) => mark.name === name));
  if (having.length === 0) return fail('InvalidRequest', `A request at ${scope} scope has no ?${name}.`);
  const served = having.filter((row) => row.leftOut === undefined);
  if (served.length === 0)
    return fail('NotImplemented', `?${name} is not implemented: ${having[0]?.leftOut}.`);
  const half = served.find((row) => row.method === method);
  const missing = half?.query.find((mark) => !query.has(mark.name))?.name;
  if (missing !== undefined)
    return invalidArgument('ResourceType', name, `?${name} is accepted only with ?${missing}.`);
  return notAllowed(method, name.toUpperCase(), served);
}

const invalidArgument = (name: string, value: string, message: string): Refusal =>
  fail('InvalidArgument', {
    message,
    elements: { ArgumentName: name.slice(0, 128), ArgumentValue: value.slice(0, 128) },
  });

function notAllowed(method: string, resource: string, having: readonly Row[]): Refusal {
  const allowed = new Set(having.map((row) => row.method));
  return fail('MethodNotAllowed', {
    headers: { Allow: [...allowed].join(', ') },
    elements: { Method: method, ResourceType: resource },
  });
}

/** The methods that access points serve at the resource of an operation, for `Allow`; '' where they serve none. */
export function accessPointMethods(operation: OperationName): string {
  const { scope, query } = parseRow(operation);
  const isSame = (row: Row): boolean => row.scope === scope && row.query[0]?.name === query[0]?.name;
  const served = rows
    .filter(({ name }) => (operations[name] as Operation).accessPoints === true)
    .filter(isSame);
  return [...new Set(served.map(({ method }) => method))].join(', ');
}

/** The first names of parameters that had no effect on an answered request: for the log, so cut, and without values. */
export const ignoredParameters = (query: Query): string[] =>
  query
    .unread()
    .filter((name) => !isFree(name))
    .slice(0, ignoredMax)
    // A longer text may be a secret that stands in the place of a name.
    .map((name) => (/^[\w.-]{1,32}$/.test(name) ? name : '…'));
const ignoredMax = 10;

/**
 * The operation of an action query.
 * @throws MissingAction, InvalidAction, MethodNotAllowed
 */
export function selectAction(method: string, action: string | undefined): OperationName {
  if (method !== 'GET' && method !== 'POST')
    throw fail('MethodNotAllowed', {
      message: `${method} is not a method of action queries`,
      headers: { Allow: 'GET, POST' },
    });
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
    const input = query.get(name);
    if (input === undefined || (value !== undefined && input !== value)) return false;
  }
  for (const name of row.headers) if (!hasHeader(name)) return false;
  return true;
}
