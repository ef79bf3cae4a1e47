/**
 * Operations of the public API that are not served: each has its row, so that it is distinguished from other operations,
 * answered 501 `NotImplemented` with the reason, counted and documented by its own name.
 */
import type { RequestLine } from './parameters.ts';

export interface LeftOutRow {
  readonly on: RequestLine;
  readonly authorization: 'none';
  readonly audited: false;
  /** Its body is not read. */
  readonly streams: true;
  readonly with: 'anything';
  /** Why it is not served. */
  readonly leftOut: string;
}

const rows = <const Names extends string>(leftOut: string, lines: Readonly<Record<Names, RequestLine>>) =>
  Object.fromEntries(
    Object.entries<RequestLine>(lines).map(([name, on]) => [
      name,
      {
        on,
        authorization: 'none',
        audited: false,
        streams: true,
        with: 'anything',
        leftOut,
      } satisfies LeftOutRow,
    ]),
    // The cast: one entry was made of each name.
  ) as unknown as Readonly<Record<Names, LeftOutRow>>;

export const leftOutOperations = {
  ...rows('the specification leaves it out', {
    GetBucketAccelerateConfiguration: 'GET bucket ?accelerate',
    PutBucketAccelerateConfiguration: 'PUT bucket ?accelerate',
    GetBucketAnalyticsConfiguration: 'GET bucket ?analytics ?id',
    PutBucketAnalyticsConfiguration: 'PUT bucket ?analytics ?id',
    DeleteBucketAnalyticsConfiguration: 'DELETE bucket ?analytics ?id',
    ListBucketAnalyticsConfigurations: 'GET bucket ?analytics',
    GetBucketIntelligentTieringConfiguration: 'GET bucket ?intelligent-tiering ?id',
    PutBucketIntelligentTieringConfiguration: 'PUT bucket ?intelligent-tiering ?id',
    DeleteBucketIntelligentTieringConfiguration: 'DELETE bucket ?intelligent-tiering ?id',
    ListBucketIntelligentTieringConfigurations: 'GET bucket ?intelligent-tiering',
    GetBucketMetricsConfiguration: 'GET bucket ?metrics ?id',
    PutBucketMetricsConfiguration: 'PUT bucket ?metrics ?id',
    DeleteBucketMetricsConfiguration: 'DELETE bucket ?metrics ?id',
    ListBucketMetricsConfigurations: 'GET bucket ?metrics',
    SelectObjectContent: 'POST object ?select',
    CreateMultiRegionAccessPoint: 'ANY service ?Action=CreateMultiRegionAccessPoint',
    DeleteMultiRegionAccessPoint: 'ANY service ?Action=DeleteMultiRegionAccessPoint',
    GetMultiRegionAccessPoint: 'ANY service ?Action=GetMultiRegionAccessPoint',
    ListMultiRegionAccessPoints: 'ANY service ?Action=ListMultiRegionAccessPoints',
  }),
  ...rows('directory buckets: the specification leaves them out', {
    CreateSession: 'GET bucket ?session',
    RenameObject: 'PUT object ?renameObject',
  }),
  ...rows('table buckets of the public service', {
    CreateBucketMetadataConfiguration: 'POST bucket ?metadataConfiguration',
    GetBucketMetadataConfiguration: 'GET bucket ?metadataConfiguration',
    DeleteBucketMetadataConfiguration: 'DELETE bucket ?metadataConfiguration',
    CreateBucketMetadataTableConfiguration: 'POST bucket ?metadataTable',
    GetBucketMetadataTableConfiguration: 'GET bucket ?metadataTable',
    DeleteBucketMetadataTableConfiguration: 'DELETE bucket ?metadataTable',
    UpdateBucketMetadataInventoryTableConfiguration: 'PUT bucket ?metadataInventoryTable',
    UpdateBucketMetadataJournalTableConfiguration: 'PUT bucket ?metadataJournalTable',
    UpdateBucketMetadataAnnotationTableConfiguration: 'PUT bucket ?metadataAnnotationTable',
  }),
  ...rows('young; policies see object tags, not bucket tags', {
    GetBucketAbac: 'GET bucket ?abac',
    PutBucketAbac: 'PUT bucket ?abac',
  }),
  ...rows('young; user metadata is there', {
    GetObjectAnnotation: 'GET object ?annotation ?annotationName',
    PutObjectAnnotation: 'PUT object ?annotation',
    DeleteObjectAnnotation: 'DELETE object ?annotation',
    ListObjectAnnotations: 'GET object ?annotation',
  }),
  ...rows('withdrawn by the public service', { GetObjectTorrent: 'GET object ?torrent' }),
};

export type LeftOutName = keyof typeof leftOutOperations;
export const leftOutNames = Object.keys(leftOutOperations) as readonly LeftOutName[];
