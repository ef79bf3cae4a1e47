/** Gives a bucket a policy. */
import { bucketPolicy } from '../../src/auth/bucket-policy.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import { bob, type GatewayWorld } from './gateway.ts';

export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The principal; bob's account by default. */
  readonly Principal?: '*' | { readonly AWS: string };
}

/** Statements about every object of a bucket and about the bucket itself. */
export async function setPolicy(
  { context }: GatewayWorld,
  bucket: string,
  statements: readonly Statement[],
): Promise<void> {
  const Statement = statements.map((each) => ({
    Principal: { AWS: bob.owner },
    ...each,
    Resource: [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`],
  }));
  await changeDocument(context, {
    bucket: await openBucket(context, bucket),
    family: bucketPolicy,
    text: JSON.stringify({ Version: '2012-10-17', Statement }),
  });
}
