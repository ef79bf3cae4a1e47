/** Properties of every one-document configuration of a bucket; rules of a single configuration have their own files. @storage */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { encryptingSettings } from '../support/encryption.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { digest64, setVersioning } from '../support/gateway-bodies.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';

interface Family {
  readonly query: string;
  readonly root: string;
  /** The policy actions of Get and Put, and of Delete where it differs from Put's. */
  readonly actions: readonly [get: string, put: string, remove?: string];
  /** The content of the root element: of the first document, and of the one that replaces it. */
  readonly documents: readonly [string, string];
  /** The error of Get while the configuration is not set, or the content of the document that Get then returns. */
  readonly unset: { readonly code: string } | { readonly inside: string };
  /** The document that removes the configuration, where there is no Delete. */
  readonly emptied?: string;
}

const families: readonly Family[] = [
  {
    query: 'cors',
    actions: ['GetBucketCORS', 'PutBucketCORS'],
    root: 'CORSConfiguration',
    documents: [
      '<CORSRule><ID>a</ID><AllowedHeader>*</AllowedHeader><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>10</MaxAgeSeconds></CORSRule>',
      '<CORSRule><AllowedMethod>PUT</AllowedMethod><AllowedOrigin>https://*.example.com</AllowedOrigin></CORSRule>',
    ],
    unset: { code: 'NoSuchCORSConfiguration' },
  },
  {
    query: 'lifecycle',
    actions: ['GetLifecycleConfiguration', 'PutLifecycleConfiguration'],
    root: 'LifecycleConfiguration',
    documents: [
      '<Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix>logs/</Prefix></Filter><Expiration><Days>3</Days></Expiration></Rule>',
      '<Rule><ID>b</ID><Status>Disabled</Status><Prefix></Prefix><AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>',
    ],
    unset: { code: 'NoSuchLifecycleConfiguration' },
  },
  {
    query: 'replication',
    actions: ['GetReplicationConfiguration', 'PutReplicationConfiguration'],
    root: 'ReplicationConfiguration',
    documents: [
      `<Role>${defaultRole}</Role><Rule><ID>a</ID><Prefix></Prefix><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::copy</Bucket></Destination></Rule>`,
      `<Role>${defaultRole}</Role><Rule><ID>b</ID><Priority>1</Priority><Filter><Prefix>p</Prefix></Filter><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::copy</Bucket></Destination><DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule>`,
    ],
    unset: { code: 'ReplicationConfigurationNotFoundError' },
  },
  {
    query: 'logging',
    actions: ['GetBucketLogging', 'PutBucketLogging'],
    root: 'BucketLoggingStatus',
    documents: [
      '<LoggingEnabled><TargetBucket>bucket</TargetBucket><TargetPrefix>logs/</TargetPrefix></LoggingEnabled>',
      '<LoggingEnabled><TargetBucket>bucket</TargetBucket><TargetPrefix></TargetPrefix><TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat></LoggingEnabled>',
    ],
    unset: { inside: '' },
    emptied: '',
  },
  {
    query: 'website',
    actions: ['GetBucketWebsite', 'PutBucketWebsite', 'DeleteBucketWebsite'],
    root: 'WebsiteConfiguration',
    documents: [
      '<IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>error.html</Key></ErrorDocument>',
      '<RedirectAllRequestsTo><HostName>example.com</HostName><Protocol>https</Protocol></RedirectAllRequestsTo>',
    ],
    unset: { code: 'NoSuchWebsiteConfiguration' },
  },
  {
    query: 'encryption',
    actions: ['GetEncryptionConfiguration', 'PutEncryptionConfiguration'],
    root: 'ServerSideEncryptionConfiguration',
    documents: [
      '<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>',
      '<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled></Rule>',
    ],
    unset: { code: 'ServerSideEncryptionConfigurationNotFoundError' },
  },
  {
    query: 'ownershipControls',
    actions: ['GetBucketOwnershipControls', 'PutBucketOwnershipControls'],
    root: 'OwnershipControls',
    documents: [
      '<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>',
      '<Rule><ObjectOwnership>BucketOwnerPreferred</ObjectOwnership></Rule>',
    ],
    unset: { code: 'OwnershipControlsNotFoundError' },
  },
  {
    query: 'publicAccessBlock',
    actions: ['GetBucketPublicAccessBlock', 'PutBucketPublicAccessBlock'],
    root: 'PublicAccessBlockConfiguration',
    documents: [
      '<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>false</RestrictPublicBuckets>',
      '<BlockPublicAcls>false</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>false</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>',
    ],
    unset: { code: 'NoSuchPublicAccessBlockConfiguration' },
  },
  {
    query: 'requestPayment',
    actions: ['GetBucketRequestPayment', 'PutBucketRequestPayment'],
    root: 'RequestPaymentConfiguration',
    documents: ['<Payer>Requester</Payer>', '<Payer>BucketOwner</Payer>'],
    unset: { inside: '<Payer>BucketOwner</Payer>' },
    emptied: '<Payer>BucketOwner</Payer>',
  },
];

const wrapped = ({ root }: Family, inside: string): string => `<${root}>${inside}</${root}>`;
const shown = ({ root }: Family, inside: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inside}</${root}>`;

describe.each(families)('?$query', (family) => {
  const path = `/bucket?${family.query}`;
  const open = async (backend: (typeof backends)[number] = 'memory') => {
    const world = await openGateway({ backend, settings: await encryptingSettings() });
    if (family.query === 'replication') await awaitDefaultPeer(world);
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    return world;
  };

  test.each(backends)(
    'is unset, stored, returned unchanged, replaced and removed, twice, on %s',
    async (backend) => {
      await using world = await open(backend);
      const { client } = world;
      const expectUnset = async () => {
        const got = await client.get(path);
        if ('code' in family.unset) expect([got.status, got.code]).toEqual([404, family.unset.code]);
        else expect([got.status, got.text]).toEqual([200, shown(family, family.unset.inside)]);
      };
      await expectUnset();
      for (const inside of family.documents) {
        const put = await client.put(path, { body: wrapped(family, inside) });
        expect([put.status, put.text]).toEqual([200, '']);
        const got = await client.get(path);
        expect([got.status, got.text]).toEqual([200, shown(family, inside)]);
        expect(got.header('content-type')).toBe('application/xml');
      }
      for (let time = 0; time < 2; time += 1) {
        const gone =
          family.emptied === undefined
            ? await client.delete(path)
            : await client.put(path, { body: wrapped(family, family.emptied) });
        expect(gone.status).toBe(family.emptied === undefined ? 204 : 200);
        await expectUnset();
      }
    },
  );

  test('is refused without a body, with another root or with unknown elements, and does not change', async () => {
    await using world = await open();
    const { client } = world;
    const [inside] = family.documents;
    await client.put(path, { body: wrapped(family, inside) });
    for (const [body, code] of [
      ['', 'MissingRequestBodyError'],
      ['{"not": "xml"}', 'MalformedXML'],
      [`<Other>${inside}</Other>`, 'MalformedXML'],
      [wrapped(family, `${inside}<Unknown>1</Unknown>`), 'MalformedXML'],
      [wrapped(family, inside).slice(0, -1), 'MalformedXML'],
    ] as const) {
      const put = await client.put(path, { body });
      expect([body, put.status, put.code]).toEqual([body, 400, code]);
    }
    expect((await client.get(path)).text).toBe(shown(family, inside));
  });

  test('is refused to other accounts, and for a missing bucket', async () => {
    await using world = await open();
    const body = wrapped(family, family.documents[0]);
    for (const client of [world.bob, world.anonymous]) {
      const answers = [
        await client.get(path),
        await client.put(path, { body }),
        ...(family.emptied === undefined ? [await client.delete(path)] : []),
      ];
      for (const { status, code } of answers) expect([status, code]).toEqual([403, 'AccessDenied']);
    }
    const missing = await world.client.put(`/missing?${family.query}`, { body });
    expect([missing.status, missing.code]).toEqual([404, 'NoSuchBucket']);
  });

  test('is accepted with and without a digest of its body, and refused with a wrong one', async () => {
    await using world = await open();
    const { client } = world;
    const body = wrapped(family, family.documents[0]);
    const digests = [
      {},
      { 'Content-MD5': digest64('md5', body) },
      { '*-checksum-sha256': digest64('sha256', body), '*-sdk-checksum-algorithm': 'SHA256' },
    ];
    for (const headers of digests) expect((await client.put(path, { body, headers })).status).toBe(200);
    const other = wrapped(family, family.documents[1]);
    for (const headers of digests.slice(1)) {
      const put = await client.put(path, { body: other, headers });
      expect([put.status, put.code]).toEqual([400, 'BadDigest']);
    }
    expect((await client.get(path)).text).toBe(shown(family, family.documents[0]));
  });

  test('requires its own policy actions', async () => {
    await using world = await open();
    const [get, put, remove = put] = family.actions;
    const body = wrapped(family, family.documents[0]);
    const asking = async (action: string) => {
      const policy = allow(`s3:${action}`, ...(family.query === 'replication' ? ['iam:PassRole'] : []));
      const { credential } = await openUser(world, action, { policy });
      const client = world.as({ credential });
      const answers = [
        await client.put(path, { body }),
        await client.get(path),
        ...(family.emptied === undefined ? [await client.delete(path)] : []),
      ];
      return answers.map(({ status }) => status < 300);
    };
    const isDeletable = family.emptied === undefined;
    await world.client.put(path, { body });
    expect(await asking(get)).toEqual([false, true, ...(isDeletable ? [false] : [])]);
    expect(await asking(put)).toEqual([true, false, ...(isDeletable ? [remove === put] : [])]);
    if (remove !== put) expect(await asking(remove)).toEqual([false, false, true]);
  });

  test('ends with its bucket', async () => {
    await using world = await open();
    const { client } = world;
    await client.put(path, { body: wrapped(family, family.documents[0]) });
    await client.delete('/bucket');
    await client.put('/bucket');
    const got = await client.get(path);
    if ('code' in family.unset) expect(got.code).toBe(family.unset.code);
    else expect(got.text).toBe(shown(family, family.unset.inside));
  });
});

test('all of them outlive the process that took them', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  const settings = { SVC_DATA_DIR: directory };
  const pathOf = ({ query }: Family) => `/bucket?${query}`;
  try {
    const first = await openGateway({ settings });
    await awaitDefaultPeer(first);
    await first.client.put('/bucket');
    await setVersioning(first.client, 'bucket', 'Enabled');
    for (const family of families)
      await first.client.put(pathOf(family), { body: wrapped(family, family.documents[0]) });
    await first.close();
    await using second = await openGateway({ settings });
    for (const family of families) {
      const { status, text } = await second.client.get(pathOf(family));
      expect([status, text]).toEqual([200, shown(family, family.documents[0])]);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
