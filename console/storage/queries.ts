/** Hooks over the storage protocol, beside those of the operator API. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { queries } from '../app/queries.ts';
import { type StorageAsk, type StorageReply, storage } from './client.ts';

const keyOf = ({ method, bucket, key, query, headers }: StorageAsk) => [
  's3',
  bucket ?? '',
  key ?? '',
  method,
  query ?? {},
  headers ?? {},
];

/** Reads with a request, and keeps what `read` takes from its reply. */
export const useStorage = <T>(
  ask: StorageAsk,
  read: (reply: StorageReply) => T,
  options: { readonly enabled?: boolean; readonly everyMs?: number } = {},
) =>
  useQuery<T, Error>({
    queryKey: keyOf(ask),
    queryFn: async ({ signal }) => read(await storage({ ...ask, signal })),
    enabled: options.enabled ?? true,
    ...(options.everyMs === undefined ? {} : { refetchInterval: options.everyMs }),
  });

/** Reads again what pages show of a bucket that has changed: its lists, its objects, and how many and how large they are. */
export const readBucketAgain = (bucket: string): Promise<unknown> =>
  Promise.all(
    [['s3', bucket], ['StatObject'], ['GetBucket', { name: bucket }], ['ListBuckets']].map((queryKey) =>
      queries.invalidateQueries({ queryKey }),
    ),
  );

/** Changes with a request; what was read of its bucket is read again. */
export const useStorageChange = () =>
  useMutation<StorageReply, Error, StorageAsk>({
    mutationFn: storage,
    onSuccess: (_, { bucket }) => readBucketAgain(bucket ?? ''),
  });
