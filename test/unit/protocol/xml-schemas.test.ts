/** Documents as in the reference of the public S3 API, and as its clients send them. */
import { expect, test } from 'vitest';
import { readXml, writeXml, type Xml } from '../../../src/protocol/formats/codec.ts';
import { errorBody } from '../../../src/protocol/render.ts';
import { listAllMyBucketsResult } from '../../../src/protocol/schemas/account.ts';
import {
  createBucketConfiguration,
  locationConstraint,
  versioningConfiguration,
} from '../../../src/protocol/schemas/bucket.ts';
import {
  listObjectsResult,
  listObjectsV2Result,
  listVersionsResult,
} from '../../../src/protocol/schemas/listing.ts';
import {
  completeMultipartUpload,
  completeMultipartUploadResult,
  initiateMultipartUploadResult,
  listMultipartUploadsResult,
  listPartsResult,
} from '../../../src/protocol/schemas/multipart.ts';
import {
  copyObjectResult,
  deleteRequest,
  deleteResult,
  getObjectAttributesResponse,
  tagging,
} from '../../../src/protocol/schemas/object.ts';

const namespace = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';
const read = <T>(schema: Xml<T>, root: string, source: string): T =>
  readXml(schema, root, new TextEncoder().encode(source), { maxBytes: 1 << 20 });
/** A reply without the whitespace between its elements. */
const dense = (source: string): string => source.trim().replace(/>\s+</g, '><');

const replies: readonly (readonly [root: string, schema: Xml<unknown>, document: string])[] = [
  [
    'ListAllMyBucketsResult',
    listAllMyBucketsResult,
    `<ListAllMyBucketsResult ${namespace}>
      <Owner><ID>bcaf1ffd86f461ca5fb16fd081034f</ID><DisplayName>webfile</DisplayName></Owner>
      <Buckets>
        <Bucket><Name>quotes</Name><CreationDate>2006-02-03T16:45:09.000Z</CreationDate></Bucket>
        <Bucket><Name>samples</Name><CreationDate>2006-02-03T16:41:58.000Z</CreationDate>
          <BucketRegion>eu-west-1</BucketRegion></Bucket>
      </Buckets>
      <ContinuationToken>t</ContinuationToken><Prefix>q</Prefix>
    </ListAllMyBucketsResult>`,
  ],
  ['LocationConstraint', locationConstraint, `<LocationConstraint ${namespace}></LocationConstraint>`],
  [
    'ListBucketResult',
    listObjectsResult,
    `<ListBucketResult ${namespace}>
      <Name>bucket</Name><Prefix></Prefix><Marker></Marker><NextMarker>b</NextMarker>
      <MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
      <Contents>
        <Key>my-image.jpg</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>
        <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag>
        <Size>434234</Size><StorageClass>STANDARD</StorageClass>
        <Owner><ID>75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a</ID></Owner>
      </Contents>
      <CommonPrefixes><Prefix>photos/2006/January/</Prefix></CommonPrefixes>
      <CommonPrefixes><Prefix>photos/2006/February/</Prefix></CommonPrefixes>
    </ListBucketResult>`,
  ],
  [
    'ListBucketResult',
    listObjectsV2Result,
    `<ListBucketResult ${namespace}>
      <Name>quotes</Name><Prefix>E</Prefix><StartAfter>ExampleGuide.pdf</StartAfter>
      <ContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</ContinuationToken>
      <NextContinuationToken>2</NextContinuationToken>
      <KeyCount>1</KeyCount><MaxKeys>3</MaxKeys><IsTruncated>false</IsTruncated>
      <Contents>
        <Key>ExampleObject.txt</Key><LastModified>2013-09-17T18:07:53.000Z</LastModified>
        <ETag>&quot;599bab3ed2c697f1d26842727561fd94&quot;</ETag>
        <ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>
        <Size>857</Size><StorageClass>REDUCED_REDUNDANCY</StorageClass>
      </Contents>
    </ListBucketResult>`,
  ],
  [
    'ListVersionsResult',
    listVersionsResult,
    `<ListVersionsResult ${namespace}>
      <Name>bucket</Name><Prefix>my</Prefix><KeyMarker></KeyMarker><VersionIdMarker></VersionIdMarker>
      <NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker>
      <MaxKeys>5</MaxKeys><IsTruncated>false</IsTruncated>
      <Version>
        <Key>my-image.jpg</Key><VersionId>3/L4kqtJl40Nr8X8gdRQBpUMLUo</VersionId><IsLatest>true</IsLatest>
        <LastModified>2009-10-12T17:50:30.000Z</LastModified>
        <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>
        <StorageClass>STANDARD</StorageClass><Owner><ID>75aa</ID><DisplayName>mtd@example.com</DisplayName></Owner>
      </Version>
      <DeleteMarker>
        <Key>my-second-image.jpg</Key><VersionId>03jpff543dhffds434rfdsFDN943fdsFkdmqnh892</VersionId>
        <IsLatest>true</IsLatest><LastModified>2009-11-12T17:50:30.000Z</LastModified><Owner><ID>75aa</ID></Owner>
      </DeleteMarker>
      <Version>
        <Key>my-second-image.jpg</Key><VersionId>null</VersionId><IsLatest>false</IsLatest>
        <LastModified>2009-10-10T17:50:30.000Z</LastModified><ETag>&quot;9b2c&quot;</ETag><Size>166434</Size>
      </Version>
    </ListVersionsResult>`,
  ],
  [
    'DeleteResult',
    deleteResult,
    `<DeleteResult ${namespace}>
      <Deleted><Key>sample1.txt</Key></Deleted>
      <Deleted><Key>sample.txt</Key><DeleteMarker>true</DeleteMarker>
        <DeleteMarkerVersionId>NeQt5xeFTfgPJD8B4CGWnkSLtluMr11s</DeleteMarkerVersionId></Deleted>
      <Error><Key>sample2.txt</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>
    </DeleteResult>`,
  ],
  [
    'CopyObjectResult',
    copyObjectResult,
    `<CopyObjectResult ${namespace}><LastModified>2009-10-12T17:50:30.000Z</LastModified>
      <ETag>&quot;9b2cf535f27731c974343645a3985328&quot;</ETag></CopyObjectResult>`,
  ],
  [
    'InitiateMultipartUploadResult',
    initiateMultipartUploadResult,
    `<InitiateMultipartUploadResult ${namespace}><Bucket>example-bucket</Bucket><Key>example-object</Key>
      <UploadId>VXBsb2FkIElEIGZvciA2aWWpbmcncyBteS1tb3ZpZS5tMnRzIHVwbG9hZA</UploadId>
    </InitiateMultipartUploadResult>`,
  ],
  [
    'CompleteMultipartUploadResult',
    completeMultipartUploadResult,
    `<CompleteMultipartUploadResult ${namespace}>
      <Location>http://Example-Bucket.s3.region.amazonaws.com/Example-Object</Location>
      <Bucket>Example-Bucket</Bucket><Key>Example-Object</Key>
      <ETag>&quot;3858f62230ac3c915f300c664312c11f-9&quot;</ETag>
      <ChecksumCRC32C>AAAAAA==-9</ChecksumCRC32C><ChecksumType>COMPOSITE</ChecksumType>
    </CompleteMultipartUploadResult>`,
  ],
  [
    'ListPartsResult',
    listPartsResult,
    `<ListPartsResult ${namespace}>
      <Bucket>example-bucket</Bucket><Key>example-object</Key><UploadId>XXBsb2FkIElEIGZvciBlbHZpbmcncyVcdS1tb3Z</UploadId>
      <Initiator><ID>arn:aws:iam::111122223333:user/some-user</ID><DisplayName>umat-user</DisplayName></Initiator>
      <Owner><ID>75aa57f09aa0c8ca</ID><DisplayName>someName</DisplayName></Owner><StorageClass>STANDARD</StorageClass>
      <PartNumberMarker>1</PartNumberMarker><NextPartNumberMarker>3</NextPartNumberMarker>
      <MaxParts>2</MaxParts><IsTruncated>true</IsTruncated>
      <Part><PartNumber>2</PartNumber><LastModified>2010-11-10T20:48:34.000Z</LastModified>
        <ETag>&quot;7778aef83f66abc1fa1e8477f296d394&quot;</ETag><Size>10485760</Size></Part>
      <Part><PartNumber>3</PartNumber><LastModified>2010-11-10T20:48:33.000Z</LastModified>
        <ETag>&quot;aaaa18db4cc2f85cedef654fccc4a4x8&quot;</ETag><Size>10485760</Size></Part>
    </ListPartsResult>`,
  ],
  [
    'ListMultipartUploadsResult',
    listMultipartUploadsResult,
    `<ListMultipartUploadsResult ${namespace}>
      <Bucket>bucket</Bucket><KeyMarker></KeyMarker><UploadIdMarker></UploadIdMarker>
      <NextKeyMarker>my-movie.m2ts</NextKeyMarker><NextUploadIdMarker>YW55IGlkZWEgd2h5</NextUploadIdMarker>
      <MaxUploads>3</MaxUploads><IsTruncated>true</IsTruncated>
      <Upload><Key>my-divisor</Key><UploadId>XMgbGlrZSBlbHZpbmcncyBub3QgaGF2aW5nIG11Y2ggbHVjaw</UploadId>
        <Initiator><ID>arn:aws:iam::111122223333:user/user1</ID></Initiator>
        <Owner><ID>75aa57f09aa0c8ca</ID><DisplayName>OwnerDisplayName</DisplayName></Owner>
        <StorageClass>STANDARD</StorageClass><Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload>
    </ListMultipartUploadsResult>`,
  ],
  [
    'GetObjectAttributesResponse',
    getObjectAttributesResponse,
    `<GetObjectAttributesResponse ${namespace}>
      <ETag>6a204bd89f3c8348afd5c77c717a097a-2</ETag>
      <Checksum><ChecksumSHA256>Xa==-2</ChecksumSHA256><ChecksumType>COMPOSITE</ChecksumType></Checksum>
      <ObjectParts><PartsCount>2</PartsCount><PartNumberMarker>0</PartNumberMarker>
        <NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1</MaxParts><IsTruncated>true</IsTruncated>
        <Part><PartNumber>1</PartNumber><Size>5242880</Size><ChecksumSHA256>YQ==</ChecksumSHA256></Part></ObjectParts>
      <StorageClass>STANDARD</StorageClass><ObjectSize>5242881</ObjectSize>
    </GetObjectAttributesResponse>`,
  ],
  [
    'VersioningConfiguration',
    versioningConfiguration,
    `<VersioningConfiguration ${namespace}><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete></VersioningConfiguration>`,
  ],
  [
    'Tagging',
    tagging,
    `<Tagging ${namespace}><TagSet><Tag><Key>tag1</Key><Value>val1</Value></Tag></TagSet></Tagging>`,
  ],
];

for (const [root, schema, document] of replies) {
  test(`a published ${root} is read and written back element for element`, () => {
    const value = read(schema, root, document);
    expect(writeXml(schema, root, value)).toBe(`<?xml version="1.0" encoding="UTF-8"?>\n${dense(document)}`);
  });
}

test('the published CompleteMultipartUpload is read, its ETags with their quotes', () => {
  const body = read(
    completeMultipartUpload,
    'CompleteMultipartUpload',
    `<CompleteMultipartUpload ${namespace}>
      <Part><PartNumber>1</PartNumber><ETag>"a54357aff0632cce46d942af68356b38"</ETag></Part>
      <Part>
        <ETag>&quot;0c78aef83f66abc1fa1e8477f296d394&quot;</ETag><PartNumber>2</PartNumber>
        <ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME><Size>5</Size>
      </Part>
      <Part><PartNumber>3</PartNumber><ETag>acbd18db4cc2f85cedef654fccc4a4d8</ETag></Part>
    </CompleteMultipartUpload>`,
  );
  expect(body.Part).toEqual([
    { PartNumber: 1, ETag: '"a54357aff0632cce46d942af68356b38"' },
    { PartNumber: 2, ETag: '"0c78aef83f66abc1fa1e8477f296d394"', ChecksumCRC64NVME: 'AAAAAAAAAAA=' },
    { PartNumber: 3, ETag: 'acbd18db4cc2f85cedef654fccc4a4d8' },
  ]);
});

test('a Delete is read with and without a namespace prefix, and its conditions are kept', () => {
  const plain = read(
    deleteRequest,
    'Delete',
    `<?xml version='1.0' encoding='utf-8' standalone="yes"?>
    <Delete><Quiet>true</Quiet><Object><Key>a &amp; b</Key><VersionId>v1</VersionId></Object>
      <Object><Key><![CDATA[<raw> & ]]>tail</Key><ETag>"e"</ETag><Size>3</Size>
        <LastModifiedTime>Thu, 05 Nov 2026 10:00:00 GMT</LastModifiedTime></Object></Delete>`,
  );
  expect(plain).toEqual({
    Quiet: true,
    Object: [
      { Key: 'a & b', VersionId: 'v1' },
      { Key: '<raw> & tail', ETag: '"e"', Size: 3, LastModifiedTime: '2026-11-05T10:00:00.000Z' },
    ],
  });
  const prefixed = read(
    deleteRequest,
    'Delete',
    '<s3:Delete xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/"><s3:Object><s3:Key>k</s3:Key></s3:Object></s3:Delete>',
  );
  expect(prefixed).toEqual({ Object: [{ Key: 'k' }] });
});

test('a Delete of 1,000 keys is read and one of 1,001, or of none, is refused', () => {
  const body = (count: number): string => `<Delete>${'<Object><Key>k</Key></Object>'.repeat(count)}</Delete>`;
  expect(read(deleteRequest, 'Delete', body(1000)).Object).toHaveLength(1000);
  expect(() => read(deleteRequest, 'Delete', body(1001))).toThrow('appears 1001 times; at most 1000');
  expect(() => read(deleteRequest, 'Delete', body(0))).toThrow('Delete/Object is required');
});

test('a condition that we do not know refuses the Delete instead of deleting without it', () => {
  expect(() =>
    read(deleteRequest, 'Delete', '<Delete><Object><Key>k</Key><IfNewer>1</IfNewer></Object></Delete>'),
  ).toThrow('Delete/Object/IfNewer is not known here');
});

test('a CreateBucketConfiguration of any SDK is read, and one of a directory bucket is refused', () => {
  const readBody = (inner: string) =>
    read(
      createBucketConfiguration,
      'CreateBucketConfiguration',
      `<CreateBucketConfiguration ${namespace}>${inner}</CreateBucketConfiguration>`,
    );
  const tags = '<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>';
  expect(
    readBody(`<LocationConstraint> eu-west-1 </LocationConstraint><Further/>
      ${tags}`),
  ).toEqual({ LocationConstraint: 'eu-west-1', Tags: [{ Key: 'a', Value: 'b' }] });
  expect(readBody('')).toEqual({});
  for (const [name, inner] of [
    ['Location', '<Name>usw2-az1</Name><Type>AvailabilityZone</Type>'],
    ['Bucket', '<DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type>'],
  ])
    expect(() => readBody(`${tags}<${name}>${inner}</${name}>`)).toThrow(
      `CreateBucketConfiguration/${name} is not implemented`,
    );
});

test('an error has no namespace, and its further elements follow the message', () => {
  const value = {
    Code: 'NoSuchKey',
    Message: 'gone',
    elements: { Key: 'a&b' },
    Resource: '/b/a',
    RequestId: 'r',
  };
  const written = writeXml(errorBody, 'Error', value, { namespace: '' });
  expect(written).toBe(
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code><Message>gone</Message>' +
      '<Key>a&amp;b</Key><Resource>/b/a</Resource><RequestId>r</RequestId></Error>',
  );
  expect(read(errorBody, 'Error', written)).toEqual(value);
});
