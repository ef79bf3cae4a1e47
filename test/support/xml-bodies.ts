/** Every XML body that clients send, with all its optional elements. */

import type { Xml } from '../../src/protocol/formats/codec.ts';
import {
  accessControlPolicy,
  ownershipControls,
  publicAccessBlockConfiguration,
} from '../../src/protocol/schemas/access.ts';
import {
  bucketLoggingStatus,
  corsConfiguration,
  createBucketConfiguration,
  legalHold,
  objectEncryption,
  objectLockConfiguration,
  requestPaymentConfiguration,
  retention,
  serverSideEncryptionConfiguration,
  versioningConfiguration,
  websiteConfiguration,
} from '../../src/protocol/schemas/bucket.ts';
import { checksumFields } from '../../src/protocol/schemas/common.ts';
import { inventoryConfiguration } from '../../src/protocol/schemas/inventory.ts';
import { lifecycleConfiguration } from '../../src/protocol/schemas/lifecycle.ts';
import { completeMultipartUpload } from '../../src/protocol/schemas/multipart.ts';
import { notificationConfiguration } from '../../src/protocol/schemas/notification.ts';
import { deleteRequest, restoreRequest, tagging } from '../../src/protocol/schemas/object.ts';
import { replicationConfiguration } from '../../src/protocol/schemas/replication.ts';
import { defaultRole } from './replication-role.ts';

export interface XmlBody {
  readonly root: string;
  readonly schema: Xml<unknown>;
  readonly document: string;
  /** The request with this body; `test/attacks/xml-bodies.test.ts` creates the resources that it needs. */
  readonly on: `${'PUT' | 'POST'} /${string}`;
  /** The error code, for a valid body that is refused. */
  readonly refused?: string;
  /** Elements whose unknown children are ignored, because real clients send some; each with its known children. */
  readonly open?: Readonly<Record<string, readonly string[]>>;
}

const xsi = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"';
const tags = (count: number): string =>
  Array.from({ length: count }, (_, at) => `<Tag><Key>k${at}</Key><Value>v${at}</Value></Tag>`).join('');
const grants = (permission: string): string => `
  <Grant><Grantee ${xsi} xsi:type="CanonicalUser"><ID>alice-account</ID><DisplayName>alice</DisplayName></Grantee>
    <Permission>FULL_CONTROL</Permission></Grant>
  <Grant><Grantee ${xsi} xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>
    <Permission>READ</Permission></Grant>
  <Grant><Grantee ${xsi} xsi:type="AmazonCustomerByEmail"><EmailAddress>a@example.com</EmailAddress></Grantee>
    <Permission>${permission}</Permission></Grant>`;
const filters = `<Filter><S3Key>
  <FilterRule><Name>prefix</Name><Value>images/</Value></FilterRule>
  <FilterRule><Name>suffix</Name><Value>.jpg</Value></FilterRule></S3Key></Filter>`;

export const xmlBodies: readonly XmlBody[] = [
  {
    root: 'AccessControlPolicy',
    on: 'PUT /bucket?acl',
    schema: accessControlPolicy,
    document: `<AccessControlPolicy><Owner><ID>alice-account</ID><DisplayName>alice</DisplayName></Owner>
      <AccessControlList>${grants('WRITE_ACP')}</AccessControlList></AccessControlPolicy>`,
    refused: 'UnresolvableGrantByEmailAddress',
    open: { Owner: ['ID', 'DisplayName'] },
  },
  {
    root: 'CORSConfiguration',
    on: 'PUT /bucket?cors',
    schema: corsConfiguration,
    document: `<CORSConfiguration>
      <CORSRule><ID>one</ID><AllowedHeader>x-*</AllowedHeader><AllowedHeader>accept</AllowedHeader>
        <AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>
        <AllowedOrigin>http://www.example.com</AllowedOrigin><AllowedOrigin>https://*.example.com</AllowedOrigin>
        <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>
      <CORSRule><AllowedMethod>HEAD</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>
    </CORSConfiguration>`,
  },
  {
    root: 'CompleteMultipartUpload',
    on: 'POST /bucket/key?uploadId=00000000000000000000000000000000',
    schema: completeMultipartUpload,
    document: `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"a5"</ETag>
      <ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>`,
    refused: 'NoSuchUpload',
    open: { CompleteMultipartUpload: ['Part'], Part: ['PartNumber', 'ETag', ...Object.keys(checksumFields)] },
  },
  {
    root: 'CreateBucketConfiguration',
    on: 'PUT /created',
    schema: createBucketConfiguration,
    document: `<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>
      <Tags>${tags(2)}</Tags></CreateBucketConfiguration>`,
    open: { CreateBucketConfiguration: ['LocationConstraint', 'Location', 'Bucket', 'Tags'] },
  },
  {
    root: 'Delete',
    on: 'POST /bucket?delete',
    schema: deleteRequest,
    document: `<Delete><Quiet>true</Quiet><Object><Key>a</Key><VersionId>v1</VersionId><ETag>"e"</ETag><Size>3</Size>
      <LastModifiedTime>2026-11-05T10:00:00.000Z</LastModifiedTime></Object><Object><Key>b</Key></Object></Delete>`,
  },
  {
    root: 'InventoryConfiguration',
    on: 'PUT /bucket?inventory&id=daily',
    schema: inventoryConfiguration,
    document: `<InventoryConfiguration><Id>daily</Id><IsEnabled>true</IsEnabled><Filter><Prefix>p/</Prefix></Filter>
      <Destination><S3BucketDestination><AccountId>alice-account</AccountId><Bucket>arn:aws:s3:::reports</Bucket>
        <Format>CSV</Format><Prefix>inventory</Prefix><Encryption><SSE-KMS><KeyId>k1</KeyId></SSE-KMS></Encryption>
      </S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule>
      <IncludedObjectVersions>All</IncludedObjectVersions>
      <OptionalFields><Field>Size</Field><Field>ETag</Field></OptionalFields></InventoryConfiguration>`,
  },
  {
    root: 'LegalHold',
    on: 'PUT /bucket/key?legal-hold',
    schema: legalHold,
    document: '<LegalHold><Status>ON</Status></LegalHold>',
  },
  {
    root: 'LifecycleConfiguration',
    on: 'PUT /bucket?lifecycle',
    schema: lifecycleConfiguration,
    document: `<LifecycleConfiguration>
      <Rule><ID>everything</ID><Status>Enabled</Status>
        <Filter><And><Prefix>logs/</Prefix>${tags(2)}<ObjectSizeGreaterThan>10</ObjectSizeGreaterThan>
          <ObjectSizeLessThan>100</ObjectSizeLessThan></And></Filter>
        <Expiration><Days>365</Days></Expiration>
        <Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>
        <Transition><Days>90</Days><StorageClass>GLACIER</StorageClass></Transition>
        <NoncurrentVersionExpiration><NoncurrentDays>50</NoncurrentDays>
          <NewerNoncurrentVersions>5</NewerNoncurrentVersions></NoncurrentVersionExpiration>
        <NoncurrentVersionTransition><NoncurrentDays>10</NoncurrentDays>
          <NewerNoncurrentVersions>2</NewerNoncurrentVersions>
          <StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>
      </Rule>
      <Rule><ID>uploads</ID><Status>Enabled</Status><Filter><Prefix>up/</Prefix></Filter>
        <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>
      </Rule>
      <Rule><ID>markers</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>
        <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>
      <Rule><Status>Disabled</Status><Filter>${tags(1)}</Filter>
        <Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration></Rule>
      <Rule><Status>Enabled</Status><Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>
        <Expiration><Days>1</Days></Expiration></Rule>
    </LifecycleConfiguration>`,
  },
  {
    root: 'LifecycleConfiguration',
    on: 'PUT /bucket?lifecycle',
    schema: lifecycleConfiguration,
    document: `<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Prefix>old/</Prefix>
      <Expiration><Days>2</Days></Expiration></Rule></LifecycleConfiguration>`,
  },
  {
    root: 'BucketLoggingStatus',
    on: 'PUT /bucket?logging',
    schema: bucketLoggingStatus,
    document: `<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>
      <TargetGrants>${grants('WRITE')}</TargetGrants>
      <TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>
      </TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>`,
    refused: 'UnresolvableGrantByEmailAddress',
  },
  {
    root: 'NotificationConfiguration',
    on: 'PUT /bucket?notification',
    schema: notificationConfiguration,
    document: `<NotificationConfiguration>
      <TopicConfiguration><Id>t</Id><Event>s3:ReducedRedundancyLostObject</Event><Event>s3:ObjectRemoved:Delete</Event>
        ${filters}<Topic>arn:aws:sns:us-east-1:123456789012:topic</Topic></TopicConfiguration>
      <QueueConfiguration><Id>q</Id><Event>s3:ObjectCreated:*</Event>${filters}
        <Queue>arn:aws:sqs:us-east-1:123456789012:queue</Queue></QueueConfiguration>
      <CloudFunctionConfiguration><Id>f</Id><Event>s3:ObjectTagging:Put</Event>
        <CloudFunction>arn:aws:lambda:us-east-1:123456789012:function:f</CloudFunction>
        <InvocationRole>r</InvocationRole></CloudFunctionConfiguration></NotificationConfiguration>`,
  },
  {
    root: 'NotificationConfiguration',
    on: 'PUT /bucket?notification',
    schema: notificationConfiguration,
    document:
      '<NotificationConfiguration><EventBridgeConfiguration></EventBridgeConfiguration></NotificationConfiguration>',
    refused: 'NotImplemented',
  },
  {
    root: 'ObjectEncryption',
    on: 'PUT /bucket/key?encryption',
    schema: objectEncryption,
    document: `<ObjectEncryption><SSE-KMS><KMSKeyArn>k1</KMSKeyArn><BucketKeyEnabled>true</BucketKeyEnabled>
      </SSE-KMS></ObjectEncryption>`,
    refused: 'InvalidRequest',
  },
  {
    root: 'ObjectLockConfiguration',
    on: 'PUT /bucket?object-lock',
    schema: objectLockConfiguration,
    document: `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>
      <Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>30</Days></DefaultRetention></Rule></ObjectLockConfiguration>`,
  },
  {
    root: 'OwnershipControls',
    on: 'PUT /bucket?ownershipControls',
    schema: ownershipControls,
    document:
      '<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>',
  },
  {
    root: 'PublicAccessBlockConfiguration',
    on: 'PUT /bucket?publicAccessBlock',
    schema: publicAccessBlockConfiguration,
    document: `<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>
      <IgnorePublicAcls>false</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy>
      <RestrictPublicBuckets>false</RestrictPublicBuckets></PublicAccessBlockConfiguration>`,
  },
  {
    root: 'ReplicationConfiguration',
    on: 'PUT /bucket?replication',
    schema: replicationConfiguration,
    document: `<ReplicationConfiguration><Role>${defaultRole}</Role>
      <Rule><ID>two</ID><Priority>1</Priority><Filter><And><Prefix>p</Prefix>${tags(2)}</And></Filter>
        <Status>Enabled</Status>
        <SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects>
          <ReplicaModifications><Status>Enabled</Status></ReplicaModifications></SourceSelectionCriteria>
        <ExistingObjectReplication><Status>Disabled</Status></ExistingObjectReplication>
        <Destination><Bucket>arn:aws:s3:::copy</Bucket><Account>123456789012</Account>
          <StorageClass>STANDARD</StorageClass>
          <AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>
          <EncryptionConfiguration><ReplicaKmsKeyID>k1</ReplicaKmsKeyID></EncryptionConfiguration>
          <ReplicationTime><Status>Enabled</Status><Time><Minutes>15</Minutes></Time></ReplicationTime>
          <Metrics><Status>Enabled</Status><EventThreshold><Minutes>15</Minutes></EventThreshold></Metrics></Destination>
        <DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication></Rule>
    </ReplicationConfiguration>`,
  },
  {
    root: 'ReplicationConfiguration',
    on: 'PUT /bucket?replication',
    schema: replicationConfiguration,
    document: `<ReplicationConfiguration><Role>${defaultRole}</Role>
      <Rule><ID>one</ID><Prefix>p</Prefix><Status>Enabled</Status>
        <Destination><Bucket>arn:aws:s3:::copy</Bucket></Destination></Rule></ReplicationConfiguration>`,
  },
  {
    root: 'RequestPaymentConfiguration',
    on: 'PUT /bucket?requestPayment',
    schema: requestPaymentConfiguration,
    document: '<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>',
  },
  {
    root: 'RestoreRequest',
    on: 'POST /bucket/archived?restore',
    schema: restoreRequest,
    document: `<RestoreRequest><Days>3</Days><GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters>
      <Tier>Standard</Tier><Description>d</Description></RestoreRequest>`,
  },
  {
    root: 'Retention',
    on: 'PUT /bucket/key?retention',
    schema: retention,
    document: `<Retention><Mode>COMPLIANCE</Mode>
      <RetainUntilDate>2030-01-01T00:00:00.000Z</RetainUntilDate></Retention>`,
  },
  {
    root: 'ServerSideEncryptionConfiguration',
    on: 'PUT /bucket?encryption',
    schema: serverSideEncryptionConfiguration,
    document: `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>
      <SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>k1</KMSMasterKeyID></ApplyServerSideEncryptionByDefault>
      <BucketKeyEnabled>true</BucketKeyEnabled>
      <BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes>
    </Rule></ServerSideEncryptionConfiguration>`,
  },
  {
    root: 'Tagging',
    on: 'PUT /bucket?tagging',
    schema: tagging,
    document: `<Tagging><TagSet>${tags(3)}</TagSet></Tagging>`,
  },
  {
    root: 'Tagging',
    on: 'PUT /bucket/key?tagging',
    schema: tagging,
    document: `<Tagging><TagSet>${tags(3)}</TagSet></Tagging>`,
  },
  {
    root: 'AccessControlPolicy',
    on: 'PUT /bucket/key?acl',
    schema: accessControlPolicy,
    document: `<AccessControlPolicy><Owner><ID>alice-account</ID></Owner><AccessControlList>
      <Grant><Grantee ${xsi} xsi:type="CanonicalUser"><ID>bob-account</ID></Grantee><Permission>READ</Permission></Grant>
      </AccessControlList></AccessControlPolicy>`,
    open: { Owner: ['ID', 'DisplayName'] },
  },
  {
    root: 'VersioningConfiguration',
    on: 'PUT /bucket?versioning',
    schema: versioningConfiguration,
    document:
      '<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete></VersioningConfiguration>',
  },
  {
    root: 'WebsiteConfiguration',
    on: 'PUT /bucket?website',
    schema: websiteConfiguration,
    document: `<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument>
      <ErrorDocument><Key>error.html</Key></ErrorDocument>
      <RoutingRules>
        <RoutingRule><Condition><KeyPrefixEquals>docs/</KeyPrefixEquals>
            <HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition>
          <Redirect><Protocol>https</Protocol><HostName>example.com</HostName>
            <ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith><HttpRedirectCode>302</HttpRedirectCode></Redirect>
        </RoutingRule>
        <RoutingRule><Redirect><ReplaceKeyWith>gone.html</ReplaceKeyWith></Redirect></RoutingRule>
      </RoutingRules></WebsiteConfiguration>`,
  },
  {
    root: 'WebsiteConfiguration',
    on: 'PUT /bucket?website',
    schema: websiteConfiguration,
    document: `<WebsiteConfiguration><RedirectAllRequestsTo><HostName>example.com</HostName><Protocol>https</Protocol>
      </RedirectAllRequestsTo></WebsiteConfiguration>`,
  },
];
