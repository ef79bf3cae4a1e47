/** The configurations of a bucket for a page: by the operator API where policies allow it, otherwise by the storage protocol. */
import { useQuery } from '@tanstack/react-query';
import type { ConfigurationFamily } from '../../src/protocol/schemas/families.ts';
import { onBucket, useAllowed } from '../app/allowed.ts';
import { useAdmin } from '../app/queries.ts';
import { storageFamilies, toRead } from './families.ts';

const everyMs = 30_000;
const allFamilies = Object.keys(storageFamilies) as readonly ConfigurationFamily[];

export interface Configurations {
  /** Undefined while the permissions are not known. */
  readonly by: 'operator-api' | 'storage' | 'forbidden' | undefined;
  /** Those that policies allow to read. */
  readonly families: readonly ConfigurationFamily[];
  readonly query: {
    readonly data: Readonly<Record<string, unknown>> | undefined;
    readonly error: Error | null;
    refetch(): Promise<unknown>;
  };
}

/** @param families those that the page shows */
export function useConfigurations(bucket: string, families = allFamilies): Configurations {
  const list = onBucket('ListBucketConfigurations', bucket);
  const allowed = useAllowed([list, ...families.map((family) => toRead(family, bucket))]);
  const mayList = allowed(list);
  const readable = families.filter((family) => allowed(toRead(family, bucket)) === true);
  const listed = useAdmin(
    'ListBucketConfigurations',
    { path: { name: bucket } },
    { everyMs, enabled: mayList === true },
  );
  // Not polled: it is a request for each family.
  const stored = useQuery({
    queryKey: ['s3', bucket, 'configurations', readable],
    queryFn: async ({ signal }) =>
      (await import('./documents.ts')).readConfigurations(bucket, readable, signal),
    enabled: mayList === false && readable.length > 0,
  });
  if (mayList === undefined || mayList)
    return {
      by: mayList === undefined ? undefined : 'operator-api',
      families: mayList === true ? families : [],
      // The cast: the documents of the families have no common type.
      query: { ...listed, data: listed.data?.configurations as Configurations['query']['data'] },
    };
  return { by: readable.length > 0 ? 'storage' : 'forbidden', families: readable, query: stored };
}
