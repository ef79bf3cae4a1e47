/**
 * The attributes of a call of a backend, by https://opentelemetry.io/docs/specs/semconv/: those of databases for metadata, and of RPC, with
 * the names of AWS's SDK where the other side speaks a protocol of AWS, for bytes, keys and peers.
 */
import { describeServerOfUrl } from '../base/text/server-address.ts';
import type { Attributes, SpanDocument } from '../ports/trace.ts';

/** A service, by the name of the conventions where they have one: `aws-api`; otherwise a name in lower case. */
export interface System {
  readonly name: string;
  /** Where it is, if that is one place. */
  readonly server?: Attributes | undefined;
}

/** What calls go to. */
export interface Systems {
  /** `db.system.name` and what else is known of the database. */
  readonly metadata: Attributes;
  readonly data: (cluster: string) => System;
  readonly keys: System;
}

/** The system of requests to services of AWS and others with their protocols. */
export const awsApi = 'aws-api';

/** The operations of S3 and KMS, as AWS's SDKs name them, behind the calls of our ports. */
const awsOperations: Readonly<Record<string, string>> = {
  'data.write': 'PutObject',
  'data.read': 'GetObject',
  'data.remove': 'DeleteObject',
  'data.isStored': 'HeadObject',
  'data.beginUpload': 'CreateMultipartUpload',
  'data.writePart': 'UploadPart',
  'data.completeUpload': 'CompleteMultipartUpload',
  'data.discardUpload': 'AbortMultipartUpload',
  'keys.describe': 'DescribeKey',
  'keys.generate': 'GenerateDataKey',
  'keys.wrap': 'Encrypt',
  'keys.unwrap': 'Decrypt',
  'keys.rewrap': 'ReEncrypt',
};

/** Their spans are about a cluster or the store, and not about one table. */
const tableless: ReadonlySet<string> = new Set(['begin', 'health']);

export function describeCall({ name, about }: Pick<SpanDocument, 'name' | 'about'>, to: Systems): Attributes {
  const [port = '', method = ''] = name.split('.');
  if (port === 'metadata')
    return {
      ...to.metadata,
      'db.operation.name': method,
      ...(tableless.has(method) ? {} : { 'db.collection.name': about }),
    };
  // Peers speak the protocol of S3.
  if (port === 'peer')
    return { ...rpc(awsApi, 'S3'), 'http.request.method': method, ...describeServerOfUrl(about) };
  const system = port === 'data' ? to.data(about) : to.keys;
  const isAws = system.name === awsApi;
  return {
    ...rpc(system.name, isAws ? (port === 'keys' ? 'KMS' : 'S3') : port),
    'rpc.method': (isAws ? awsOperations[name] : undefined) ?? method,
    ...(port === 'data' ? { 'sluice.cluster': about } : {}),
    ...system.server,
  };
}

/** `rpc.system.name` replaces `rpc.system`, which the conventions of AWS's SDK still require. */
const rpc = (system: string, service: string): Attributes => ({
  'rpc.system': system,
  'rpc.system.name': system,
  'rpc.service': service,
});
