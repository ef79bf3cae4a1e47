/** Get, Put, Delete and List of BucketInventoryConfiguration. */
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { readDocument, reviseDocument } from '../../domain/configurations/documents.ts';
import {
  bucketInventories,
  findInventory,
  type Inventory,
  withInventory,
  withoutInventory,
} from '../../domain/configurations/inventory.ts';
import { assertProvider } from '../../domain/content/named-keys.ts';
import { forgetResult } from '../../domain/inventory/runs.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import {
  inventoryConfiguration,
  listInventoryConfigurationsResult,
} from '../../protocol/schemas/inventory.ts';
import type { ReadFacts } from '../../request/body.ts';
import { readToken, writeToken } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { bucketOfArn, checkPrefix } from '../common/checks.ts';
import {
  type Configuration,
  type Configuring,
  type Prepared,
  storeConfiguration,
} from '../common/document.ts';
import { emptyReply, type HandlerOf, type WithFacts, xmlReply } from '../handler.ts';

const inventoriesMax = 1000;
const pageMax = 100;
/** The length of one configuration as JSON, so that all of a bucket's fit into one document. */
const inventoryLengthMax = 3000;
const idPattern = /^[A-Za-z0-9_.-]{1,64}$/;

const readId = ({ query }: AuthorizedInBucket): string => checkId(query.get('id') ?? '');

function checkId(id: string): string {
  if (!idPattern.test(id))
    throw invalidArgument(
      'id',
      id,
      'The id must be 1 to 64 of the characters a-z, A-Z, 0-9, "-", "_" and "."',
    );
  return id;
}

/** The worker writes in the name of the bucket's owner: it must not write into a bucket of another owner. */
async function checkDestination(ctx: Context, bucket: BucketRow, { Destination }: Inventory): Promise<void> {
  const { AccountId, Bucket, Format, Encryption } = Destination.S3BucketDestination;
  const refused = (message: string) =>
    fail('InvalidS3DestinationBucket', { message, elements: { DestinationBucket: Bucket } });
  const name = bucketOfArn(Bucket);
  if (name === undefined) throw refused('Invalid bucket ARN.');
  const target = (await findBucket(ctx.metadata, name))?.row;
  if (target === undefined) throw refused('The destination bucket does not exist.');
  if (target.owner !== bucket.owner || (AccountId ?? target.owner) !== target.owner)
    throw refused('The destination bucket must be owned by the owner of the source bucket.');
  if (target.region !== bucket.region)
    throw refused('The destination bucket must be in the region of the source bucket.');
  const kms = Encryption?.['SSE-KMS'];
  if (kms !== undefined) assertProvider(ctx, { name: 'SSE-KMS', value: kms.KeyId });
  if (Format === 'ORC') throw fail('NotImplemented', 'Inventories are written as CSV and Parquet only.');
}

/** @throws MissingRequestBodyError, MalformedXML */
function inventoryIn(body: Uint8Array): Inventory {
  return readXml(inventoryConfiguration, 'InventoryConfiguration', body, { maxBytes: bodyMaxDefault });
}

const inventoryFacts: ReadFacts = (body) => ({
  named: new Map([['s3:InventoryAccessibleOptionalFields', inventoryIn(body).OptionalFields ?? []]]),
});

export const PutBucketInventoryConfiguration: WithFacts<'PutBucketInventoryConfiguration'> = {
  facts: inventoryFacts,
  async handle(ctx, request) {
    const id = readId(request);
    await storeConfiguration(ctx, request, { prepare, input: { value: inventoryIn(request.body), id } });
    return emptyReply(200);
  },
};

const add = (inventories: readonly Inventory[] | undefined, inventory: Inventory): readonly Inventory[] => {
  const next = withInventory(inventories, inventory);
  if (next.length > inventoriesMax) throw fail('TooManyConfigurations');
  return next;
};

async function prepare(
  ctx: Context,
  { bucket, record, checks }: Configuring,
  { value: inventory, id = '' }: { readonly value: Inventory; readonly id?: string },
): Promise<Prepared> {
  await checks.at({ path: 'Id', right: 'the id of the address' }, () => {
    if (inventory.Id !== checkId(id))
      throw fail('IdMismatch', {
        message: `The id of the URL must be the Id of the body, ${inventory.Id}`,
        elements: { ArgumentName: 'id', ArgumentValue: id },
      });
  });
  await checks.at({ path: '', right: `at most ${inventoryLengthMax} characters` }, () => {
    if (JSON.stringify(inventory).length > inventoryLengthMax)
      throw fail('InvalidArgument', 'The inventory configuration is too long.');
  });
  await checks.at({ path: 'Filter.Prefix' }, () => checkPrefix(inventory.Filter?.Prefix));
  await checks.at({ path: 'Destination.S3BucketDestination' }, () =>
    checkDestination(ctx, bucket, inventory),
  );
  const revise = (inventories: readonly Inventory[] | undefined) => add(inventories, inventory);
  await checks.at({ path: '', right: `at most ${inventoriesMax} inventories of a bucket` }, async () =>
    revise(await readDocument(ctx, bucket, bucketInventories)),
  );
  return { commit: () => reviseDocument(ctx, bucket, { family: bucketInventories, record, revise }) };
}

async function remove(ctx: Context, { bucket, record }: Pick<Configuring, 'bucket' | 'record'>, id: string) {
  let removed: Inventory | undefined;
  await reviseDocument(ctx, bucket, {
    family: bucketInventories,
    record,
    revise: (inventories) => {
      removed = findInventory(inventories, id);
      if (removed === undefined) throw fail('NoSuchConfiguration');
      return withoutInventory(inventories, id);
    },
  });
  if (removed !== undefined) await forgetResult(ctx.metadata, { bucketId: bucket.id, inventory: removed });
}

export const inventory: Configuration<Inventory, 'inventory'> = {
  family: 'inventory',
  unset: 'NoSuchConfiguration',
  async read(ctx, bucket, id) {
    const inventories = await readDocument(ctx, bucket, bucketInventories);
    if (id !== undefined) return findInventory(inventories, id);
    return inventories && Object.fromEntries(inventories.map((each) => [each.Id, each]));
  },
  prepare,
  remove: (ctx, request, id = '') => remove(ctx, request, checkId(id)),
};

export const GetBucketInventoryConfiguration: HandlerOf<'GetBucketInventoryConfiguration'> = async (
  ctx,
  request,
) => {
  const found = findInventory(await readDocument(ctx, request.bucket, bucketInventories), readId(request));
  if (found === undefined) throw fail('NoSuchConfiguration');
  return xmlReply(inventoryConfiguration, 'InventoryConfiguration', found);
};

export const DeleteBucketInventoryConfiguration: HandlerOf<'DeleteBucketInventoryConfiguration'> = async (
  ctx,
  request,
) => {
  await remove(ctx, request, readId(request));
  return emptyReply(204);
};

export const ListBucketInventoryConfigurations: HandlerOf<'ListBucketInventoryConfigurations'> = async (
  ctx,
  { bucket, query },
) => {
  const ContinuationToken = query.get('continuation-token');
  const after = readToken(ContinuationToken)?.after;
  const all = (await readDocument(ctx, bucket, bucketInventories)) ?? [];
  const rest = after === undefined ? all : all.filter(({ Id }) => Id > after);
  const page = rest.slice(0, pageMax);
  const last = page.at(-1);
  const IsTruncated = rest.length > page.length;
  return xmlReply(listInventoryConfigurationsResult, 'ListInventoryConfigurationsResult', {
    InventoryConfiguration: page,
    IsTruncated,
    ...(ContinuationToken === undefined ? {} : { ContinuationToken }),
    ...(IsTruncated && last !== undefined ? { NextContinuationToken: writeToken({ after: last.Id }) } : {}),
  });
};
