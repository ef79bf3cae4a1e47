/** The configurations of a bucket as JSON. A change is checked and stored as the same change of the account's root would be. */
import { type ErrorCode, fail } from '../../base/errors.ts';
import type { Json } from '../../base/text/strict-json.ts';
import { nearest } from '../../config/nearest.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { describeFault, type JsonFault, type JsonShape } from '../../protocol/formats/json-shape.ts';
import {
  type ConfigurationFamily,
  configurationFamilies,
  configurationShapes,
  familiesWithIds,
} from '../../protocol/schemas/families.ts';
import * as access from '../bucket/access.ts';
import * as buckets from '../bucket/bucket.ts';
import * as cors from '../bucket/cors.ts';
import * as encryption from '../bucket/encryption.ts';
import * as inventory from '../bucket/inventory.ts';
import * as lifecycle from '../bucket/lifecycle.ts';
import * as logging from '../bucket/logging.ts';
import * as notification from '../bucket/notification.ts';
import * as objectLock from '../bucket/object-lock.ts';
import * as replication from '../bucket/replication.ts';
import * as versioning from '../bucket/versioning.ts';
import * as website from '../bucket/website.ts';
import { type Checks, firstRefusal, gatherRefusals, type PartRefusal } from '../common/checks.ts';
import type { Configuration, Configuring } from '../common/document.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from './call.ts';

type Call = Pick<AdminRequest, 'params' | 'caller' | 'requestId' | 'signal' | 'record'>;

interface Target {
  readonly bucket: BucketRow;
  readonly family: ConfigurationFamily;
  readonly id?: string;
  readonly configuration: Configuration<never>;
}

/** @throws InvalidArgument for an unknown family, or an id where there is none; NoSuchBucket */
async function openTarget(ctx: Context, { params }: Pick<Call, 'params'>): Promise<Target> {
  const family = readFamily(params.get('family') ?? '');
  const id = params.get('id');
  if (id !== undefined && !familiesWithIds.has(family))
    throw fail('InvalidArgument', {
      message: `A bucket has one configuration of ${family}: leave out the id.`,
      field: 'id',
    });
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  return { bucket, family, configuration: configurations[family], ...(id === undefined ? {} : { id }) };
}

/** @throws InvalidArgument where the family has ids, and the request has none */
function assertOne({ family, id }: Target): void {
  if (id === undefined && familiesWithIds.has(family))
    throw fail('InvalidArgument', {
      message: `A bucket has several configurations of ${family}: add the id of one to the path.`,
      field: 'family',
    });
}

/** The request as that of the root of the bucket's account: what an account may set does not depend on the operator. */
const asOwner = (
  { caller, requestId, signal, record }: Call,
  {
    bucket,
    checks,
    isDryRun,
  }: { readonly bucket: BucketRow; readonly checks: Checks; readonly isDryRun: boolean },
): Configuring => ({
  ...caller,
  identity: {
    accessKey: '',
    owner: bucket.owner,
    displayName: bucket.ownerName,
    root: true,
    operator: false,
  },
  // A dry run sends no test events.
  own: new Map(isDryRun ? [['skip-destination-validation', 'true']] : []),
  bucket,
  requestId,
  signal,
  record,
  checks,
});

export const ListBucketConfigurations: AdminHandler<'ListBucketConfigurations'> = async (ctx, { params }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const set: Record<string, unknown> = {};
  for (const family of configurationFamilies) {
    const value = await configurations[family].read(ctx, bucket);
    if (value !== undefined) set[family] = value;
  }
  return jsonReply({ configurations: set });
};

async function get(ctx: Context, call: Call) {
  const { configuration, bucket, id } = await openTarget(ctx, call);
  const { unset } = configuration;
  const value = await configuration.read(ctx, bucket, id);
  if (value === undefined && typeof unset === 'string')
    throw fail(unset, { elements: { BucketName: bucket.name } });
  return jsonReply(value ?? unset);
}

async function put(
  ctx: Context,
  call: Call,
  { body, isDryRun }: { readonly body: Json; readonly isDryRun: boolean },
) {
  const target = await openTarget(ctx, call);
  assertOne(target);
  const { bucket, family, configuration, id } = target;
  call.record?.qualify?.(isDryRun ? `${family}?dry-run` : family);
  const { value, faults } = readDocument(family, body);
  const [first] = faults;
  if (!isDryRun && first !== undefined)
    throw fail('MalformedJSON', { message: describeFault(first), field: first.path });
  const gathered = gatherRefusals();
  const checks = isDryRun ? gathered : firstRefusal;
  // The rules read every part of a document, so they are checked where all parts have their shape.
  if (faults.length === 0) {
    const input = { value, ...(id === undefined ? {} : { id }) };
    const { commit } = await configuration.prepare(ctx, asOwner(call, { bucket, checks, isDryRun }), input);
    if (!isDryRun) await commit();
  }
  return jsonReply({ isStored: !isDryRun, refusals: [...faults.map(toRefusal), ...gathered.refusals] });
}

/** Faults of a document, at most: for the reply. */
const faultsMax = 1_000;

function readDocument(family: ConfigurationFamily, body: Json) {
  const faults: JsonFault[] = [];
  const shape: JsonShape<unknown> = configurationShapes[family];
  const value = shape.read(body, '', (fault) => {
    if (faults.length < faultsMax) faults.push(fault);
  });
  // The cast: the handler of the family takes what its shape reads.
  return { value: value as never, faults };
}

const toRefusal = (fault: JsonFault): PartRefusal => ({
  path: fault.path,
  code: 'MalformedJSON' satisfies ErrorCode,
  message: describeFault(fault),
  right: fault.right,
});

async function remove(ctx: Context, call: Call) {
  const target = await openTarget(ctx, call);
  assertOne(target);
  const { bucket, family, configuration, id } = target;
  call.record?.qualify?.(family);
  if (configuration.remove === undefined)
    throw fail('MethodNotAllowed', {
      message: `The configuration ${family} cannot be removed, only changed.`,
      headers: { Allow: 'GET, HEAD, PUT' },
    });
  const request = asOwner(call, { bucket, checks: firstRefusal, isDryRun: false });
  await configuration.remove(ctx, request, id);
  return emptyReply(204);
}

export const GetBucketConfiguration: AdminHandler<'GetBucketConfiguration'> = get;
export const GetBucketConfigurationEntry: AdminHandler<'GetBucketConfigurationEntry'> = get;
export const PutBucketConfiguration: AdminHandler<'PutBucketConfiguration'> = (ctx, call) =>
  put(ctx, call, { body: call.body, isDryRun: call.query['dry-run'] === true });
export const PutBucketConfigurationEntry: AdminHandler<'PutBucketConfigurationEntry'> = (ctx, call) =>
  put(ctx, call, { body: call.body, isDryRun: call.query['dry-run'] === true });
export const DeleteBucketConfiguration: AdminHandler<'DeleteBucketConfiguration'> = remove;
export const DeleteBucketConfigurationEntry: AdminHandler<'DeleteBucketConfigurationEntry'> = remove;

// The families of bucket configurations that the operator API reads and writes: all that the handlers of buckets export.

const exported = {
  ...access,
  ...buckets,
  ...cors,
  ...encryption,
  ...inventory,
  ...lifecycle,
  ...logging,
  ...notification,
  ...objectLock,
  ...replication,
  ...versioning,
  ...website,
};
type Exported = Extract<(typeof exported)[keyof typeof exported], { readonly family: string }>;

const isConfiguration = (value: unknown): value is Configuration<never> =>
  typeof value === 'object' && value !== null && 'family' in value;

/** A family of the schemas that no handler exports is an error of the compiler where this is read. */
const configurations = Object.fromEntries(
  Object.values<unknown>(exported)
    .filter(isConfiguration)
    .map((each) => [each.family, each]),
  // The cast: the names are those of the values.
) as unknown as Readonly<Record<Exported['family'], Configuration<never>>>;

/** @throws InvalidArgument naming the families */
function readFamily(name: string): ConfigurationFamily {
  const family = configurationFamilies.find((each) => each === name);
  if (family !== undefined) return family;
  const close = nearest(name, configurationFamilies);
  throw fail('InvalidArgument', {
    message: `There is no configuration "${name.slice(0, 64)}"; ${close === undefined ? `there are ${configurationFamilies.join(', ')}` : `did you mean ${close}?`}`,
    field: 'family',
  });
}
