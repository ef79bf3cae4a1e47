/** Hooks over the storage protocol, beside those of the operator API. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
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

/** Changes with a request; what was read of its bucket is read again. */
export function useStorageChange() {
  const client = useQueryClient();
  return useMutation<StorageReply, Error, StorageAsk>({
    mutationFn: storage,
    onSuccess: (_, { bucket }) => client.invalidateQueries({ queryKey: ['s3', bucket ?? ''] }),
  });
}
