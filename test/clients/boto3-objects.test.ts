/** boto3 with its default settings on object metadata: tags, locks, restores, attributes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Boto, openBoto } from './drivers.ts';

let boto: Boto;
beforeAll(async () => {
  boto = await openBoto('boto3-objects.py');
});
afterAll(() => boto?.world.stop());

test('tags of a version are put, returned, counted and deleted', async () => {
  expect(await boto.step('tagging')).toEqual({
    first: [
      { Key: 'a', Value: '1' },
      { Key: 'b', Value: 'two words' },
    ],
    second: [{ Key: 'ü', Value: '' }],
    count: [1, 1],
    versions: true,
    left: [],
    many: ['BadRequest', 400],
  });
});

test('default retention, retention and legal hold keep a version until they are taken off', async () => {
  expect(await boto.step('lock')).toEqual({
    configured: true,
    default: ['GOVERNANCE', true],
    longer: ['GOVERNANCE', true],
    hold: 'ON',
    held: ['AccessDenied', 403],
    retained: ['AccessDenied', 403],
    many: ['AccessDenied'],
    gone: ['404', 404],
    unset: ['NoSuchKey', 404],
  });
});

test('an archived object is read once it is restored', async () => {
  expect(await boto.step('restore')).toEqual({
    closed: ['InvalidObjectState', 403],
    statuses: [202, 200],
    body: 'archived',
    header: 'ongoing-request="false"',
    class: 'DEEP_ARCHIVE',
    listed: false,
    expires: true,
  });
});

test('GetObjectAttributes returns the attributes', async () => {
  expect(await boto.step('attributes')).toEqual({ etag: true, size: 5, class: 'STANDARD_IA', crc32: true });
});
