/** An authorization decision with all its inputs, beside one in a place without policies; the goal is less than 10 µs. */
import { isAllowed } from '../../src/auth/authorize.ts';
import { bucketPolicy } from '../../src/auth/bucket-policy.ts';
import type { Identity } from '../../src/auth/identity.ts';
import { configWith } from '../../src/config/read-config.ts';
import { createBucket } from '../../src/domain/buckets/bucket.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import type { BucketRow } from '../../src/metadata/tables.ts';
import { Query, WireHeaders } from '../../src/protocol/wire.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { microsOf, type Piece } from '../lib/micro.ts';
import { benchCredential } from '../lib/sign.ts';

const { secretKey: _, ...root } = benchCredential;
const user = { ...root, accessKey: 'other', displayName: 'carol', root: false };

/** Statements that are evaluated without deciding the request; the last but one allows it. */
function policyText(bucket: string): string {
  const Resource = `arn:aws:s3:::${bucket}/logs/*/2026/*`;
  const others = Array.from({ length: 18 }, (_each, i) => ({
    Effect: i % 3 === 0 ? 'Deny' : 'Allow',
    Principal: {
      AWS: [`arn:aws:iam::${root.owner}:user/user-${i}`, `arn:aws:iam::${root.owner}:user/carol`],
    },
    Action: ['s3:Put*', 's3:GetObject'],
    Resource: i % 2 === 0 ? Resource : `arn:aws:s3:::${bucket}/\${aws:username}/*`,
    Condition: { IpAddress: { 'aws:SourceIp': `10.${i}.0.0/16` }, StringLike: { 'aws:UserAgent': 'none/*' } },
  }));
  const ends = ['Allow', 'Deny'].map((Effect) => ({
    Effect,
    Principal: '*',
    Action: 's3:GetObject',
    Resource: `arn:aws:s3:::${bucket}/*`,
    Condition: { Bool: { 'aws:SecureTransport': String(Effect === 'Allow') } },
  }));
  return JSON.stringify({ Version: '2012-10-17', Statement: [...others, ...ends] });
}

export async function authorize(): Promise<Piece[]> {
  const config = configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop' });
  const { context, close } = await compose(config, { credentials: [benchCredential] });
  const open = async (name: string, text?: string): Promise<BucketRow> => {
    const named = { name, owner: root.owner, ownerName: 'bench', creator: 'bench', region: 'default' };
    const bucket = await createBucket(context, { ...named, objectLock: false, documents: {} });
    if (text !== undefined) await changeDocument(context, { bucket, family: bucketPolicy, text });
    return openBucket(context, name);
  };
  const caller = {
    wire: {
      method: 'GET',
      target: '/',
      headers: new WireHeaders(['user-agent', 'bench/1']),
      remote: '10.99.0.1',
      secure: true,
    },
    query: new Query(''),
    own: new Map<string, string>(),
    signed: undefined,
    operation: 'GetObject',
  };
  const asking = async (bucket: BucketRow, identity: NonNullable<Identity>) => {
    const question = { action: 's3:GetObject', bucket, bucketName: bucket.name, key: 'logs/a/2026/b' };
    const asker = { ...caller, identity };
    return microsOf(() => isAllowed(context, asker, question), { ms: 2_000 });
  };
  const plain = await asking(await open('plain'), root);
  const ruled = await asking(await open('ruled', policyText('ruled')), user);
  await close();
  return [
    { name: 'authorize, root at home', micros: plain },
    {
      name: 'authorize, 20 statements of a bucket policy and an identity policy',
      micros: ruled,
      floor: { name: 'root at home', micros: plain },
    },
  ];
}
