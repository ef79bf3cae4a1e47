/** The console's conversion of configurations between the JSON of the operator API and the storage protocol, at the gateway itself. */
import { expect, test } from 'vitest';
import { samples } from '../../console/pages/bucket-settings/samples.ts';
import {
  decodeConfiguration,
  emptyDocuments,
  encodeConfiguration,
  minimumSizeHeader,
  readDocument,
} from '../../console/storage/codec.ts';
import { storageFamilies } from '../../console/storage/families.ts';
import { type ConfigurationFamily, configurationFamilies } from '../../src/protocol/schemas/families.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';

const bucket = 'of-alice';
const rule = { ID: 'r', Status: 'Enabled', Filter: { Prefix: 'l/' }, Expiration: { Days: 9 } };
const statement = {
  Effect: 'Allow',
  Principal: { AWS: '*' },
  Action: 's3:GetObject',
  Resource: `arn:aws:s3:::${bucket}/*`,
};
/** Where the example needs something that this world does not have. */
const others: Partial<Record<ConfigurationFamily, object>> = {
  acl: { Owner: { ID: alice.owner }, AccessControlList: [] },
  lifecycle: { Rule: [rule], TransitionDefaultMinimumObjectSize: 'varies_by_storage_class' },
  policy: { Version: '2012-10-17', Statement: [statement] },
  notification: {},
};
/** A rule of these needs a target outside. */
const untested: readonly ConfigurationFamily[] = ['replication'];

const queryOf = (family: ConfigurationFamily, id = ''): string =>
  `?${storageFamilies[family].parameter}${id === '' ? '' : `&id=${id}`}`;

async function write(world: GatewayWorld, family: ConfigurationFamily, json: object, id = ''): Promise<void> {
  const { value, faults } = readDocument(family, JSON.stringify(json));
  expect(faults).toEqual([]);
  const { text, minimumSize } = encodeConfiguration(family, value);
  const reply = await world.client.put(`/${bucket}${queryOf(family, id)}`, {
    body: text,
    headers: minimumSize === undefined ? {} : { [minimumSizeHeader]: minimumSize },
  });
  expect([family, reply.status, reply.text]).toEqual([family, expect.toBeOneOf([200, 204]), '']);
}

test('what the page writes in the storage protocol is what the operator API shows, and the page reads the same', async () => {
  await using world = await openGateway();
  await world.client.put(`/${bucket}`);
  const asOperator = world.as({ credential: operator });
  // Object Lock needs it.
  await write(world, 'versioning', { Status: 'Enabled' });
  for (const family of configurationFamilies.filter((each) => !untested.includes(each))) {
    const id = family === 'inventory' ? 'daily' : '';
    const json = others[family] ?? samples[family as Exclude<ConfigurationFamily, 'acl'>](bucket, id);
    await write(world, family, json, id);
    const at = `/admin/v1/buckets/${bucket}/configurations/${family}${id === '' ? '' : `/${id}`}`;
    const shown = await asOperator.get(at);
    const read = await world.client.get(`/${bucket}${queryOf(family, id)}`);
    const encoded = { text: read.text, minimumSize: read.header(minimumSizeHeader) };
    const value = decodeConfiguration(family, encoded);
    expect([family, value ?? emptyDocuments[family]]).toEqual([family, JSON.parse(shown.text)]);
    expect([family, JSON.parse(shown.text)]).toMatchObject([family, json]);
  }
  // An access log is switched off by a document that says nothing.
  await write(world, 'logging', emptyDocuments.logging ?? {});
  const { text } = await world.client.get(`/${bucket}${queryOf('logging')}`);
  expect(decodeConfiguration('logging', { text })).toBeUndefined();
});

test('families and removals of the page are those of the storage protocol', async () => {
  await using world = await openGateway();
  await world.client.put(`/${bucket}`);
  for (const family of configurationFamilies) {
    const { status } = await world.client.delete(
      `/${bucket}${queryOf(family, family === 'inventory' ? 'x' : '')}`,
    );
    // 404: there is no such inventory.
    const has = status === 204 || status === 404;
    const isDeletable = storageFamilies[family].isRemovable && emptyDocuments[family] === undefined;
    expect([family, has]).toEqual([family, isDeletable]);
  }
});
