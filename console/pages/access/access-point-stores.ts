/**
 * Where the access points of a bucket are read and changed: in the operator API, or in the storage protocol as the
 * account of the caller.
 */
import { type Answer, call, Refused } from '../../app/client.ts';
import { read } from '../../app/reads.ts';
import { type StorageAsk, type StorageReply, storage } from '../../storage/client.ts';
import { childOf, childrenOf, escapeXml, textIn } from '../../storage/xml.ts';

type Row = Answer<'ListBucketAccessPoints'>['rows'][number];
export type AccessPoint = Pick<
  Row,
  'accessPoint' | 'account' | 'alias' | 'arn' | 'created' | 'statements' | 'isPublic'
> & {
  /** The settings that are on, of the four of a public access block. */
  readonly blocks: readonly string[];
};

export interface AccessPointPage {
  readonly rows: readonly AccessPoint[];
  readonly next?: string | undefined;
}

export interface AccessPointStore {
  list(after: string | undefined, signal: AbortSignal): Promise<AccessPointPage>;
  /** The text of the policy; '' where there is none. */
  readPolicy(name: string, signal: AbortSignal): Promise<string>;
  create(name: string, blocksPublicAccess: boolean): Promise<unknown>;
  remove(name: string): Promise<unknown>;
  putPolicy(name: string, document: string): Promise<unknown>;
  removePolicy(name: string): Promise<unknown>;
}

export const settings = [
  'BlockPublicAcls',
  'IgnorePublicAcls',
  'BlockPublicPolicy',
  'RestrictPublicBuckets',
] as const;

const fromRow = (row: Row): AccessPoint => ({
  ...row,
  blocks: [
    row.blockPublicAcls && settings[0],
    row.ignorePublicAcls && settings[1],
    row.blockPublicPolicy && settings[2],
    row.restrictPublicBuckets && settings[3],
  ].filter((each) => each !== false),
});

export function adminStore(bucket: string): AccessPointStore {
  const path = { name: bucket };
  const of = (accessPoint: string) => ({ path: { ...path, accessPoint } });
  return {
    async list(after, signal) {
      const query = { limit: pageSize, ...(after === undefined ? {} : { after }) };
      const { rows, next } = await read('ListBucketAccessPoints', { path, query, signal });
      return { rows: rows.map(fromRow), next };
    },
    readPolicy: async (name, signal) =>
      (await read('GetBucketAccessPoint', { ...of(name), signal })).document ?? '',
    create: (accessPoint, isOn) =>
      call('CreateBucketAccessPoint', {
        path,
        body: {
          accessPoint,
          ...{ blockPublicAcls: isOn, ignorePublicAcls: isOn },
          ...{ blockPublicPolicy: isOn, restrictPublicBuckets: isOn },
        },
      }),
    remove: (name) => call('DeleteBucketAccessPoint', of(name)),
    putPolicy: (name, document) => call('PutBucketAccessPointPolicy', { ...of(name), body: { document } }),
    removePolicy: (name) => call('DeleteBucketAccessPointPolicy', of(name)),
  };
}

const namespace = 'http://awss3control.amazonaws.com/doc/2018-08-20/';
/** Small, because the storage protocol has three further requests for each access point. */
const pageSize = 20;

/** By the requests of S3 Control: https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_CreateAccessPoint.html */
export function storageStore(bucket: string, account: string): AccessPointStore {
  const ask = (method: StorageAsk['method'], rest: string, more: Partial<StorageAsk> = {}) =>
    storage({
      method,
      bucket: 'v20180820',
      key: `accesspoint${rest}`,
      headers: { 'x-amz-account-id': account },
      ...more,
    });
  const readPolicy = (name: string, signal: AbortSignal) =>
    orNone(ask('GET', `/${name}/policy`, { signal }), (reply) => textOf(reply, 'Policy'));
  const readOne = async (found: Element, signal: AbortSignal): Promise<AccessPoint> => {
    const name = textIn(found, 'Name') ?? '';
    const [shown, policy, status] = await Promise.all([
      ask('GET', `/${name}`, { signal }),
      readPolicy(name, signal),
      orNone(ask('GET', `/${name}/policyStatus`, { signal }), ({ text }) => text),
    ]);
    const block = shown.xml && childOf(shown.xml, 'PublicAccessBlockConfiguration');
    return {
      accessPoint: name,
      account,
      alias: textIn(found, 'Alias') ?? '',
      arn: textIn(found, 'AccessPointArn') ?? '',
      created: textOf(shown, 'CreationDate'),
      statements: countStatements(policy),
      isPublic: status.includes('<IsPublic>true</IsPublic>'),
      blocks: settings.filter((each) => block !== undefined && textIn(block, each) === 'true'),
    };
  };
  return {
    async list(after, signal) {
      const query = { bucket, maxResults: String(pageSize), nextToken: after };
      const { xml } = await ask('GET', '', { query, signal });
      const list = xml && childOf(xml, 'AccessPointList');
      const found = list === undefined ? [] : childrenOf(list, 'AccessPoint');
      const rows = await Promise.all(found.map((each) => readOne(each, signal)));
      return { rows, next: xml && textIn(xml, 'NextToken') };
    },
    readPolicy,
    create: (name, isOn) =>
      ask('PUT', `/${name}`, {
        body: `<CreateAccessPointRequest xmlns="${namespace}"><Bucket>${escapeXml(bucket)}</Bucket><PublicAccessBlockConfiguration>${settings
          .map((each) => `<${each}>${isOn}</${each}>`)
          .join('')}</PublicAccessBlockConfiguration></CreateAccessPointRequest>`,
      }),
    remove: (name) => ask('DELETE', `/${name}`),
    putPolicy: (name, document) =>
      ask('PUT', `/${name}/policy`, {
        body: `<PutAccessPointPolicyRequest xmlns="${namespace}"><Policy>${escapeXml(document)}</Policy></PutAccessPointPolicyRequest>`,
      }),
    removePolicy: (name) => ask('DELETE', `/${name}/policy`),
  };
}

const textOf = ({ xml }: StorageReply, name: string): string => (xml && textIn(xml, name)) ?? '';

/** '' where the access point has no policy. What policies forbid to read counts as none: the list shows the rest. */
async function orNone(
  reply: Promise<StorageReply>,
  toText: (reply: StorageReply) => string,
): Promise<string> {
  try {
    return toText(await reply);
  } catch (cause) {
    if (cause instanceof Refused && (cause.status === 404 || cause.status === 403)) return '';
    throw cause;
  }
}

function countStatements(policy: string): number {
  if (policy === '') return 0;
  const { Statement = [] } = JSON.parse(policy) as { readonly Statement?: object | readonly object[] };
  return Array.isArray(Statement) ? Statement.length : 1;
}
