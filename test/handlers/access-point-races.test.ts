/** Concurrent creations and deletions of access points: a host never passes from one access point to another of the same name. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { createAccessPoint, deleteAccessPoint } from '../../src/domain/access/access-points.ts';
import { findAlias } from '../../src/metadata/buckets/access-points.ts';
import { accessPoints } from '../../src/metadata/records/access-points.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { alice, openGateway } from '../support/gateway.ts';

const account = alice.owner;
const name = 'photos';
const wanted = {
  account,
  name,
  bucket: 'bucket',
  bucketOwner: account,
  block: { blockAcls: true, ignoreAcls: true, blockPolicy: true, restrictBuckets: true } as never,
};

test('one that is made again between the two steps of a deletion keeps its host', async () => {
  let between: (() => Promise<void>) | undefined;
  const interrupted = (context: Context): Context => {
    const { metadata } = context;
    const commit: MetadataStore['commit'] = async (at, changes, options) => {
      const outcome = await metadata.commit(at, changes, options);
      const isDeletion = at.table.name === accessPoints.name && changes.some((change) => 'remove' in change);
      const step = isDeletion ? between : undefined;
      if (step !== undefined) between = undefined;
      await step?.();
      return outcome;
    };
    const watched = new Proxy(metadata, {
      get: (_, property) => {
        const value: unknown = property === 'commit' ? commit : Reflect.get(metadata, property);
        return typeof value === 'function' ? value.bind(metadata) : value;
      },
    });
    return { ...context, metadata: watched };
  };
  await using world = await openGateway({ wrap: interrupted });
  await world.client.put('/bucket');
  const { context } = world;
  await createAccessPoint(context, wanted);
  const label = `${name}-${account}`;
  between = async () => {
    await createAccessPoint(context, wanted);
  };
  await deleteAccessPoint(context, { account, name });
  expect((await findAlias(context.metadata, label))?.row.name).toBe(name);
  // A deleted access point releases its host name.
  await deleteAccessPoint(context, { account, name });
  expect(await findAlias(context.metadata, label)).toBeUndefined();
});
