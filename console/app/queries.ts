/** What pages read and change: hooks over the client. Replies are cached by operation and question, and polled while the tab is visible. */
import {
  keepPreviousData,
  QueryClient,
  type QueryKey,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { type AdminOperationName, type Answer, type Ask, call, Refused } from './client.ts';
import { read } from './reads.ts';

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What the gateway has refused stays refused; what did not arrive is asked for twice more.
      retry: (failures, error) => !(error instanceof Refused && error.status < 500) && failures < 2,
      retryDelay: (failures) => Math.min(8_000, 500 * 2 ** failures),
      refetchOnWindowFocus: true,
      // Begin also where the browser says that it is offline: the gateway may be on this machine, and otherwise the failure is shown.
      networkMode: 'always',
      refetchOnReconnect: true,
    },
    // A change that waited for the network would be made when its form was closed long ago.
    mutations: { retry: false, networkMode: 'always' },
  },
});

export interface ReadOptions<T = never> {
  /** How often it is read again while the tab is visible; it may depend on what was read last. */
  readonly everyMs?: number | ((last: T | undefined) => number);
  readonly enabled?: boolean;
  /** Another question about the same thing, such as another span of time: the last reply is shown until the next one has come. */
  readonly keepsLast?: boolean;
}

/** All polls of a page are due at the same moments, so that they are one request; those of other tabs and users at others. */
const phase = Date.now();

interface ReadState<T> {
  readonly state: {
    readonly data: T | undefined;
    readonly dataUpdatedAt: number;
    readonly errorUpdatedAt: number;
  };
}

/** The time until the next of these moments that is at least half the interval after the last reading. */
const untilDue =
  <T>(every: NonNullable<ReadOptions<T>['everyMs']>) =>
  ({ state: { data, dataUpdatedAt, errorUpdatedAt } }: ReadState<T>): number => {
    const everyMs = typeof every === 'number' ? every : every(data);
    const earliest = Math.max(dataUpdatedAt, errorUpdatedAt) + everyMs / 2 - phase;
    return Math.max(1_000, phase + Math.ceil(earliest / everyMs) * everyMs - Date.now());
  };

const polling = <T>(everyMs: ReadOptions<T>['everyMs']) =>
  everyMs === undefined ? {} : { refetchInterval: untilDue<T>(everyMs) };

/** Whether the page shows an earlier answer already. */
const isRead = (key: QueryKey): boolean => queries.getQueryData(key) !== undefined;

/** Reads with an operation of the operator API. */
export const useAdmin = <N extends AdminOperationName>(
  name: N,
  ask: Ask<N> = {},
  options: ReadOptions<Answer<N>> = {},
) =>
  useQuery<Answer<N>, Error>({
    queryKey: [name, ask.path ?? {}, ask.query ?? {}, ask.body ?? {}],
    queryFn: ({ signal, queryKey }) => read(name, { ...ask, signal }, { isPoll: isRead(queryKey) }),
    enabled: options.enabled ?? true,
    ...(options.keepsLast === true ? { placeholderData: keepPreviousData } : {}),
    ...polling<Answer<N>>(options.everyMs),
  });

interface PagedQuery {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  fetchNextPage(): Promise<unknown>;
}

/** The further pages of a list, as `DataTable` and `Partial` offer them. */
export const moreOf = (query: PagedQuery) => ({
  has: query.hasNextPage,
  busy: query.isFetchingNextPage,
  load: () => {
    query.fetchNextPage().catch(() => {});
  },
});

/** Reads a list that has pages; `rowsOf` takes the rows from a page. */
export function useAdminPages<N extends AdminOperationName, Row>(
  name: N,
  ask: Ask<N>,
  {
    rowsOf,
    keepsRows = false,
    everyMs,
    keyedBy = ask.query,
    ...options
  }: Omit<ReadOptions, 'everyMs'> & {
    readonly everyMs?: number;
    readonly rowsOf: (page: Answer<N>) => readonly Row[];
    /** While another question is asked, the rows of the one before stay: a search does not flicker. */
    readonly keepsRows?: boolean;
    /** What tells the list from others, where the question itself changes with the time. */
    readonly keyedBy?: object | undefined;
  },
) {
  const query = useInfiniteQuery({
    queryKey: [name, 'pages', ask.path ?? {}, keyedBy ?? {}],
    queryFn: ({ signal, pageParam, queryKey }) => {
      // The cast: every list that has pages takes `after`, which the compiler cannot see for a variable name.
      const query = { ...ask.query, ...(pageParam === '' ? {} : { after: pageParam }) } as never;
      return read(name, { ...ask, query, signal }, { isPoll: pageParam === '' && isRead(queryKey) });
    },
    initialPageParam: '',
    getNextPageParam: (page) => (page as { readonly next?: string }).next,
    ...(keepsRows ? { placeholderData: keepPreviousData } : {}),
    enabled: options.enabled ?? true,
    ...polling(everyMs),
  });
  return {
    ...query,
    rows: query.data?.pages.flatMap((page) => [...rowsOf(page as Answer<N>)]),
    more: moreOf(query),
  };
}

/** Changes with an operation, then reads again what the operations of `then` had read. */
export function useChange<N extends AdminOperationName>(name: N, then: readonly AdminOperationName[] = []) {
  const client = useQueryClient();
  return useMutation<Answer<N>, Error, Ask<N>>({
    mutationFn: (ask) => call(name, ask),
    onSuccess: () => Promise.all(then.map((each) => client.invalidateQueries({ queryKey: [each] }))),
  });
}
