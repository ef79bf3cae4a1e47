/** ListRequests: the last requests of the storage protocol to this node. */
import { RecentRequests, type RequestEntry } from '../../../base/recent-requests.ts';
import { hasStatus } from '../../../base/status-filter.ts';
import type { Context } from '../../../context.ts';
import type { AdminQuery } from '../../../protocol/operations/admin.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { type RecentKind, readNode, shareRecent } from './recent.ts';

export const listedMax = 100;

type Filter = Omit<AdminQuery<'ListRequests'>, 'limit' | 'after'>;

interface Sent extends RequestEntry {
  readonly process: string;
}

const requests: RecentKind<RequestEntry, Sent, Filter> = {
  topic: 'recent-requests',
  entriesOf: ({ caches }) => caches.of(RecentRequests).entries,
  matches: (entry, { bucket, account, operation, status, minMs = 0 }) =>
    (bucket === undefined || entry.bucket === bucket) &&
    (account === undefined || entry.account === account) &&
    (operation === undefined || entry.operation === operation) &&
    (status === undefined || hasStatus(entry, status)) &&
    entry.durationMs >= minMs,
  describe: (entry, process) => ({ ...entry, process }),
};

export const shareRecentRequests = (ctx: Context): void => shareRecent(ctx, requests);

const describe = ({ at, durationMs, ...entry }: Sent) => ({
  time: new Date(at).toISOString(),
  ...entry,
  durationMs: Math.round(durationMs * 10) / 10,
});

export const ListRequests: AdminHandler<'ListRequests'> = async (ctx, { query }) => {
  const { limit = listedMax, after, ...filter } = query;
  const { entries, ...page } = await readNode(ctx, requests, { filter, max: limit, after });
  return jsonReply({ requests: entries.map(describe), ...page });
};
