/** The rules of CORS, website, replication, logging, encryption, ownership and request payment configurations. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import { bucketAcl } from '../../src/domain/configurations/families.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { alice, bob, type GatewayWorld, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';

type Cases = Readonly<Record<string, readonly [inside: string, code?: string]>>;

interface Family {
  readonly query: string;
  readonly root: string;
  /** A case without an error code is accepted. */
  readonly cases: Cases;
  readonly prepare?: (world: GatewayWorld) => Promise<unknown>;
  readonly settings?: () => Promise<GatewayWorldOptions['settings']>;
}

const cors = (inside: string): string =>
  `<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>https://a</AllowedOrigin>${inside}</CORSRule>`;
const routed = (redirect: string, condition = ''): string =>
  `<IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules><RoutingRule>${condition}<Redirect>${redirect}</Redirect></RoutingRule></RoutingRules>`;
const routing = (count: number): string =>
  `<IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules>${'<RoutingRule><Redirect><HostName>h</HostName></Redirect></RoutingRule>'.repeat(count)}</RoutingRules>`;
const role = `<Role>${defaultRole}</Role>`;
const copyTo = (more = '', bucket = 'arn:aws:s3:::copy'): string =>
  `<Destination><Bucket>${bucket}</Bucket>${more}</Destination>`;
const enabled = '<Status>Enabled</Status>';
const markers = (status: string): string =>
  `<DeleteMarkerReplication><Status>${status}</Status></DeleteMarkerReplication>`;
const first = (more: string): string => `${role}<Rule><Prefix></Prefix>${enabled}${more}</Rule>`;
const second = (filter: string, more = markers('Disabled')): string =>
  `${role}<Rule><Priority>0</Priority><Filter>${filter}</Filter>${enabled}${copyTo()}${more}</Rule>`;
const tag = (key: string): string => `<Tag><Key>${key}</Key><Value>v</Value></Tag>`;
const kmsObjects =
  '<SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects></SourceSelectionCriteria>';
const kmsKey = '<EncryptionConfiguration><ReplicaKmsKeyID>k</ReplicaKmsKeyID></EncryptionConfiguration>';
const inTime = (minutes: number): string =>
  `<ReplicationTime><Status>Enabled</Status><Time><Minutes>${minutes}</Minutes></Time></ReplicationTime>`;
const metrics =
  '<Metrics><Status>Enabled</Status><EventThreshold><Minutes>15</Minutes></EventThreshold></Metrics>';
const logTo = (bucket: string, more = ''): string =>
  `<LoggingEnabled><TargetBucket>${bucket}</TargetBucket><TargetPrefix></TargetPrefix>${more}</LoggingEnabled>`;
const grantTo = (type: string, name: string): string =>
  `<TargetGrants><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}">${name}</Grantee><Permission>READ</Permission></Grant></TargetGrants>`;
const everyone = '<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>';
const encrypted = (inside: string, more = ''): string =>
  `<Rule><ApplyServerSideEncryptionByDefault>${inside}</ApplyServerSideEncryptionByDefault>${more}</Rule>`;
const aes = '<SSEAlgorithm>AES256</SSEAlgorithm>';
const blocked = (type: string): string =>
  `<BlockedEncryptionTypes><EncryptionType>${type}</EncryptionType></BlockedEncryptionTypes>`;
const owned = (by: string): string => `<Rule><ObjectOwnership>${by}</ObjectOwnership></Rule>`;

const families: readonly Family[] = [
  {
    query: 'cors',
    root: 'CORSConfiguration',
    cases: {
      'a wildcard in each place': [
        cors('<AllowedOrigin>https://*.a</AllowedOrigin><AllowedHeader>x-*</AllowedHeader>'),
      ],
      'the longest age': [cors('<MaxAgeSeconds>2147483647</MaxAgeSeconds>')],
      'an age of none': [cors('<MaxAgeSeconds>0</MaxAgeSeconds>')],
      '100 rules': [cors('').repeat(100)],
      'the longest id': [cors(`<ID>${'i'.repeat(255)}</ID>`)],
      '101 rules': [cors('').repeat(101), 'InvalidRequest'],
      'no rule': ['', 'MalformedXML'],
      'a long id': [cors(`<ID>${'i'.repeat(256)}</ID>`), 'InvalidRequest'],
      'OPTIONS as a method': [cors('<AllowedMethod>OPTIONS</AllowedMethod>'), 'InvalidRequest'],
      'a method in small letters': [cors('<AllowedMethod>get</AllowedMethod>'), 'InvalidRequest'],
      'any method': [cors('<AllowedMethod>*</AllowedMethod>'), 'InvalidRequest'],
      'two wildcards in an origin': [cors('<AllowedOrigin>*.a.*</AllowedOrigin>'), 'InvalidRequest'],
      'two wildcards in a header': [cors('<AllowedHeader>*-*</AllowedHeader>'), 'InvalidRequest'],
      'a wildcard to expose': [cors('<ExposeHeader>x-*</ExposeHeader>'), 'InvalidRequest'],
      'a line break to expose': [cors('<ExposeHeader>a&#10;Set-Cookie: b</ExposeHeader>'), 'InvalidRequest'],
      'letters that no header name has': [cors('<ExposeHeader>é</ExposeHeader>'), 'InvalidRequest'],
      'nothing to expose': [cors('<ExposeHeader></ExposeHeader>'), 'InvalidRequest'],
      'a negative age': [cors('<MaxAgeSeconds>-1</MaxAgeSeconds>'), 'MalformedXML'],
      'no origin': ['<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>', 'MalformedXML'],
      'no method': ['<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>', 'MalformedXML'],
    },
  },
  {
    query: 'website',
    root: 'WebsiteConfiguration',
    cases: {
      'an index alone': ['<IndexDocument><Suffix>index.html</Suffix></IndexDocument>'],
      'everything elsewhere': [
        '<RedirectAllRequestsTo><HostName>example.com:8080</HostName></RedirectAllRequestsTo>',
      ],
      'a rule without a condition': [routed('<HostName>h</HostName>')],
      'a rule for errors': [
        routed(
          '<ReplaceKeyWith>gone</ReplaceKeyWith><HttpRedirectCode>307</HttpRedirectCode>',
          '<Condition><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition>',
        ),
      ],
      '50 rules': [routing(50)],
      '51 rules': [routing(51), 'InvalidRequest'],
      'nothing at all': ['', 'InvalidArgument'],
      'errors without an index': ['<ErrorDocument><Key>e</Key></ErrorDocument>', 'InvalidArgument'],
      'an empty suffix': ['<IndexDocument><Suffix></Suffix></IndexDocument>', 'InvalidArgument'],
      'a suffix with a slash': ['<IndexDocument><Suffix>a/i</Suffix></IndexDocument>', 'InvalidArgument'],
      'an empty error document': [
        '<IndexDocument><Suffix>i</Suffix></IndexDocument><ErrorDocument><Key></Key></ErrorDocument>',
        'InvalidArgument',
      ],
      'everything elsewhere, and an index': [
        '<RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo><IndexDocument><Suffix>i</Suffix></IndexDocument>',
        'InvalidRequest',
      ],
      'everything to a header of its own': [
        '<RedirectAllRequestsTo><HostName>h&#13;&#10;Set-Cookie: a</HostName></RedirectAllRequestsTo>',
        'InvalidRequest',
      ],
      'everything by another protocol': [
        '<RedirectAllRequestsTo><HostName>h</HostName><Protocol>ftp</Protocol></RedirectAllRequestsTo>',
        'InvalidRequest',
      ],
      'a redirect to nowhere': [routed(''), 'InvalidRequest'],
      'a redirect to two keys': [
        routed('<ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith>'),
        'InvalidRequest',
      ],
      'a status code that is no redirect': [
        routed('<HttpRedirectCode>200</HttpRedirectCode>'),
        'InvalidRequest',
      ],
      'a code of choices': [routed('<HttpRedirectCode>300</HttpRedirectCode>'), 'InvalidRequest'],
      'an error that is none': [
        routed(
          '<HostName>h</HostName>',
          '<Condition><HttpErrorCodeReturnedEquals>301</HttpErrorCodeReturnedEquals></Condition>',
        ),
        'InvalidRequest',
      ],
      'an empty condition': [routed('<HostName>h</HostName>', '<Condition/>'), 'InvalidRequest'],
      'a rule without a redirect': [
        '<IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules><RoutingRule/></RoutingRules>',
        'MalformedXML',
      ],
    },
  },
  {
    query: 'replication',
    root: 'ReplicationConfiguration',
    prepare: async (world) => {
      await awaitDefaultPeer(world, '123');
      await setVersioning(world.client, 'bucket', 'Enabled');
    },
    cases: {
      'a rule of the first version': [first(copyTo())],
      'a rule of the second version': [second('<Prefix>p</Prefix>', markers('Enabled'))],
      'a rule by tags': [second(`<And>${tag('a')}${tag('b')}</And>`)],
      'keys, owners and time': [
        first(
          kmsObjects +
            copyTo(
              `<Account>123</Account><AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>${kmsKey}${inTime(15)}${metrics}`,
            ),
        ),
      ],
      'existing objects left alone': [
        first(`<ExistingObjectReplication><Status>Disabled</Status></ExistingObjectReplication>${copyTo()}`),
      ],
      'two rules': [first(copyTo()) + first(copyTo()).replace(role, ''), 'InvalidRequest'],
      'no rule': [role, 'MalformedXML'],
      'no role': [first(copyTo()).replace(role, ''), 'MalformedXML'],
      'a role that is a user': [first(copyTo()).replace(':role/r', ':user/r'), 'InvalidArgument'],
      'a destination by its name': [first(copyTo('', 'copy')), 'InvalidArgument'],
      'a destination that is an object': [first(copyTo('', 'arn:aws:s3:::copy/key')), 'InvalidArgument'],
      'no destination': [first(''), 'MalformedXML'],
      'a class that is none': [first(copyTo('<StorageClass>COLD</StorageClass>')), 'MalformedXML'],
      'neither filter nor prefix': [`${role}<Rule>${enabled}${copyTo()}</Rule>`, 'MalformedXML'],
      'filter and prefix': [second('').replace('<Priority>', '<Prefix></Prefix><Priority>'), 'MalformedXML'],
      'a priority in the first version': [first(`${copyTo()}<Priority>1</Priority>`), 'InvalidRequest'],
      'no priority in the second version': [
        second('').replace('<Priority>0</Priority>', ''),
        'InvalidRequest',
      ],
      'no word on markers in the second version': [second('', ''), 'InvalidRequest'],
      'markers by tag': [second(tag('a'), markers('Enabled')), 'InvalidRequest'],
      'And with one condition': [second(`<And>${tag('a')}</And>`), 'MalformedXML'],
      'two conditions side by side': [second(`<Prefix></Prefix>${tag('a')}`), 'MalformedXML'],
      'a tag key twice': [second(`<And>${tag('a')}${tag('a')}</And>`), 'InvalidRequest'],
      'a long prefix': [second(`<Prefix>${'p'.repeat(1025)}</Prefix>`), 'InvalidRequest'],
      'owners without an account': [
        first(copyTo('<AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>')),
        'InvalidRequest',
      ],
      'keys for objects that are not chosen': [first(copyTo(kmsKey)), 'InvalidRequest'],
      'chosen objects without a key': [first(kmsObjects + copyTo()), 'InvalidRequest'],
      'another time': [first(copyTo(inTime(5) + metrics)), 'InvalidRequest'],
      'time without metrics': [first(copyTo(inTime(15))), 'InvalidRequest'],
      'existing objects': [
        first(`<ExistingObjectReplication><Status>Enabled</Status></ExistingObjectReplication>${copyTo()}`),
      ],
      'a long id': [first(`<ID>${'i'.repeat(256)}</ID>${copyTo()}`), 'InvalidArgument'],
    },
  },
  {
    query: 'logging',
    root: 'BucketLoggingStatus',
    prepare: async ({ client, bob: other }) => {
      await client.put('/logs');
      await client.put('/locked', { headers: { '*-bucket-object-lock-enabled': 'true' } });
      await client.put('/elsewhere', {
        body: '<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>',
      });
      await client.put('/enforced');
      await client.put('/enforced?ownershipControls', {
        body: `<OwnershipControls>${owned('BucketOwnerEnforced')}</OwnershipControls>`,
      });
      await other.put('/foreign');
    },
    cases: {
      'another bucket': [logTo('logs')],
      itself: [logTo('bucket')],
      'grants of every kind': [logTo('logs', grantTo('Group', everyone))],
      'a simple prefix': [logTo('logs', '<TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>')],
      'a bucket whose owner owns all': [logTo('enforced')],
      'a bucket that is not there': [logTo('missing'), 'InvalidTargetBucketForLogging'],
      'a bucket that cannot be': [logTo('../etc'), 'InvalidTargetBucketForLogging'],
      'a bucket of another account': [logTo('foreign'), 'InvalidTargetBucketForLogging'],
      'a bucket elsewhere': [logTo('elsewhere'), 'InvalidTargetBucketForLogging'],
      'a locked bucket': [logTo('locked'), 'InvalidTargetBucketForLogging'],
      'grants where the owner owns all': [logTo('enforced', grantTo('Group', everyone)), 'InvalidArgument'],
      'an unknown group': [logTo('logs', grantTo('Group', '<URI>urn:all</URI>')), 'InvalidArgument'],
      'a user named as a group is': [logTo('logs', grantTo('CanonicalUser', everyone)), 'MalformedACLError'],
      'two key formats': [
        logTo('logs', '<TargetObjectKeyFormat><SimplePrefix/><PartitionedPrefix/></TargetObjectKeyFormat>'),
        'MalformedXML',
      ],
      'a long prefix': [
        logTo('logs').replace('<TargetPrefix>', `<TargetPrefix>${'p'.repeat(1025)}`),
        'InvalidRequest',
      ],
      'no prefix': [logTo('logs').replace('<TargetPrefix></TargetPrefix>', ''), 'MalformedXML'],
    },
  },
  {
    query: 'encryption',
    settings: encryptingSettings,
    root: 'ServerSideEncryptionConfiguration',
    cases: {
      'the service’s own keys': [encrypted(aes)],
      'a key of the key service': [
        encrypted('<SSEAlgorithm>aws:kms</SSEAlgorithm>', '<BucketKeyEnabled>true</BucketKeyEnabled>'),
      ],
      'nothing blocked': [encrypted(aes, blocked('NONE'))],
      'two layers': [encrypted('<SSEAlgorithm>aws:kms:dsse</SSEAlgorithm>'), 'NotImplemented'],
      'customer keys blocked': [encrypted(aes, blocked('SSE-C'))],
      'a key id with the service’s own': [
        encrypted(`${aes}<KMSMasterKeyID>k</KMSMasterKeyID>`),
        'InvalidArgument',
      ],
      'a key without a name': [
        encrypted('<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID></KMSMasterKeyID>'),
        'InvalidArgument',
      ],
      'an unknown algorithm': [encrypted('<SSEAlgorithm>ROT13</SSEAlgorithm>'), 'MalformedXML'],
      'two rules': [encrypted(aes).repeat(2), 'MalformedXML'],
      'no rule': ['', 'MalformedXML'],
    },
  },
  {
    query: 'ownershipControls',
    root: 'OwnershipControls',
    cases: {
      'the writer': [owned('ObjectWriter')],
      'the owner of the bucket': [owned('BucketOwnerEnforced')],
      'two rules': [owned('ObjectWriter').repeat(2), 'MalformedXML'],
      'no rule': ['', 'MalformedXML'],
      'an unknown value': [owned('Anybody'), 'MalformedXML'],
    },
  },
  {
    query: 'requestPayment',
    root: 'RequestPaymentConfiguration',
    cases: {
      'the requester': ['<Payer>Requester</Payer>'],
      'an unknown payer': ['<Payer>Nobody</Payer>', 'MalformedXML'],
      'no payer': ['', 'MalformedXML'],
    },
  },
];

describe.each(families)('?$query', ({ query, root, cases, prepare, settings }) => {
  const path = `/bucket?${query}`;
  const open = async () => {
    const world = await openGateway({ settings: (await settings?.()) ?? {} });
    await world.client.put('/bucket');
    await prepare?.(world);
    return world;
  };
  test.each(Object.entries(cases).filter(([, [, code]]) => code === undefined))(
    'accepts %s',
    async (_, [inside]) => {
      await using world = await open();
      const put = await world.client.put(path, { body: `<${root}>${inside}</${root}>` });
      expect([put.status, put.text]).toEqual([200, '']);
    },
  );
  test.each(Object.entries(cases).filter(([, [, code]]) => code !== undefined))(
    'refuses %s',
    async (_, [inside, code]) => {
      await using world = await open();
      const before = await world.client.get(path);
      const put = await world.client.put(path, { body: `<${root}>${inside}</${root}>` });
      expect([put.status, put.code]).toEqual([code === 'NotImplemented' ? 501 : 400, code]);
      const after = await world.client.get(path);
      expect([after.status, after.code]).toEqual([before.status, before.code]);
    },
  );
});

test.each([
  ['without a key id', ''],
  ['with a key id', '<KMSMasterKeyID>first</KMSMasterKeyID>'],
])('PutBucketEncryption with aws:kms %s is refused where no key provider is configured', async (_, key) => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const put = (inside: string) =>
    client.put('/bucket?encryption', {
      body: `<ServerSideEncryptionConfiguration>${encrypted(inside)}</ServerSideEncryptionConfiguration>`,
    });
  expect((await put(aes)).status).toBe(200);
  const refused = await put(`<SSEAlgorithm>aws:kms</SSEAlgorithm>${key}`);
  expect([refused.status, refused.code, refused.one('ArgumentName')]).toEqual([
    400,
    'InvalidArgument',
    'SSEAlgorithm',
  ]);
  expect(refused.one('Message')).toContain('SVC_KEY_PROVIDER is not configured');
  expect((await client.get('/bucket?encryption')).one('SSEAlgorithm')).toBe('AES256');
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
});

test('replication needs versions', async () => {
  await using world = await openGateway();
  const { client } = world;
  await awaitDefaultPeer(world);
  await client.put('/bucket');
  const body = `<ReplicationConfiguration>${first(copyTo())}</ReplicationConfiguration>`;
  for (const status of [undefined, 'Suspended'] as const) {
    if (status !== undefined) await setVersioning(client, 'bucket', status);
    const put = await client.put('/bucket?replication', { body });
    expect([put.status, put.code]).toEqual([400, 'InvalidRequest']);
  }
  await setVersioning(client, 'bucket', 'Enabled');
  expect((await client.put('/bucket?replication', { body })).status).toBe(200);
});

test('BucketOwnerEnforced is refused while an ACL grants rights to others', async () => {
  await using world = await openGateway();
  const { client, context } = world;
  await client.put('/bucket');
  const bucket = await openBucket(context, 'bucket');
  const grant = (id: string) =>
    changeDocument(context, {
      bucket,
      family: bucketAcl,
      text: JSON.stringify([{ grantee: { is: 'user', id }, permission: 'FULL_CONTROL' }]),
    });
  const put = (by: string) =>
    client.put('/bucket?ownershipControls', { body: `<OwnershipControls>${owned(by)}</OwnershipControls>` });
  await grant(bob.owner);
  const refused = await put('BucketOwnerEnforced');
  expect([refused.status, refused.code]).toEqual([400, 'InvalidBucketAclWithObjectOwnership']);
  expect((await put('BucketOwnerPreferred')).status).toBe(200);
  await grant(alice.owner);
  expect((await put('BucketOwnerEnforced')).status).toBe(200);
});

test('a public access block shows what was not sent as off', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const body =
    '<PublicAccessBlockConfiguration><BlockPublicAcls>TRUE</BlockPublicAcls></PublicAccessBlockConfiguration>';
  expect((await client.put('/bucket?publicAccessBlock', { body })).status).toBe(200);
  const got = await client.get('/bucket?publicAccessBlock');
  const names = ['BlockPublicAcls', 'IgnorePublicAcls', 'BlockPublicPolicy', 'RestrictPublicBuckets'];
  expect(names.map((name) => got.one(name))).toEqual(['true', 'false', 'false', 'false']);
});
