/** A master key that sealed secrets is not left out unnoticed: not by a start, and not by a request that needs it. */
import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { configWith } from '../../src/config/read-config.ts';
import { findInstallation, putInstallation } from '../../src/metadata/installation.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { Sealer } from '../../src/ports/cryptography.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { checkInstallation } from '../../src/runtime/installation.ts';
import { openActions } from '../support/actions.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { must } from '../support/iam-users.ts';

const random = systemRandom();
const names = { first: '\u0001'.repeat(8), second: '\u0002'.repeat(8), third: '\u0003'.repeat(8) };
const { first, second, third } = names;
const hexOf = (name: string): string => Buffer.from(name, 'latin1').toString('hex');

function openInstallation() {
  const metadata = memoryStore({ clock: systemClock, random });
  const start = (keys: readonly string[], settings: Readonly<Record<string, string>> = {}) =>
    checkInstallation(metadata, { config: configWith(settings), random, mode: 'start', keys });
  return { metadata, start };
}

test('a start without a former master key is refused, and names the key and what would be right', async () => {
  const { start } = openInstallation();
  await start([first]);
  await start([first, second]);
  await start([second, first]);
  await expect(start([second])).rejects.toThrow(`lacks a former key of installation`);
  await expect(start([second])).rejects.toThrow(hexOf(first));
  await expect(start([second])).rejects.toThrow(
    /restore each as a further line, or .*SVC_MASTER_KEYS_RETIRED/,
  );
  await start([second, first]);
  await start([second], { SVC_MASTER_KEYS_RETIRED: hexOf(first) });
  await expect(start([first])).rejects.toThrow('is not the key of installation');
});

test('a further key that was never the first one may be removed again', async () => {
  const { start } = openInstallation();
  await start([first, second]);
  await start([first]);
  await start([third, first]);
  await start([first, third]);
  await expect(start([first])).rejects.toThrow(hexOf(third));
});

test('the row of an earlier version, which names the current key only, gets all keys of the file', async () => {
  const { metadata, start } = openInstallation();
  await start([second, first]);
  const found = await findInstallation(metadata);
  if (found === undefined) throw new Error('the installation is not stored');
  const { keys: _, ...earlier } = found.state;
  expect(earlier.key).toBe(second);
  expect(await putInstallation(metadata, earlier, found)).toBe(true);
  await start([second, first]);
  await expect(start([second])).rejects.toThrow(hexOf(first));
  expect((await findInstallation(metadata))?.state.keys).toEqual([second, first]);
});

test('a request whose access key, device or object key does not open is refused as such, and the log says why', async () => {
  let isLost = false;
  const errors: string[] = [];
  await using world = await openGateway({
    wrap: (context) => {
      const { sealer, telemetry } = context;
      const { open } = sealer;
      // The credentials of the gateway have this object already.
      const losing: Pick<Sealer, 'open'> = {
        open: async (sealed, place) => (isLost ? undefined : open(sealed, place)),
      };
      Object.assign(sealer, losing);
      const log: typeof telemetry.log = (level, message) => {
        if (level === 'ERROR') errors.push(message);
      };
      return { ...context, telemetry: { ...telemetry, log } };
    },
  });
  await world.client.put('/bucket');
  const headers = { 'x-amz-server-side-encryption': 'AES256' };
  await world.client.put('/bucket/key', { body: 'content', headers });
  const iam = openActions(world);
  await must(iam('CreateUser', { UserName: 'carol' }));
  // No request has used it, so no process has its secret in memory.
  const key = await must(iam('CreateAccessKey', { UserName: 'carol' }));
  const pair = { accessKey: key.one('AccessKeyId') ?? '', secretKey: key.one('SecretAccessKey') ?? '' };
  const credential = { ...alice, ...pair };
  const device = await must(iam('CreateVirtualMFADevice', { VirtualMFADeviceName: 'phone' }));
  isLost = true;
  const byKey = await world.as({ credential }).get('/bucket/key');
  const byObject = await world.client.get('/bucket/key');
  const byDevice = await iam('EnableMFADevice', {
    UserName: 'carol',
    SerialNumber: device.one('SerialNumber') ?? '',
    AuthenticationCode1: '123456',
    AuthenticationCode2: '654321',
  });
  for (const { status, code, text } of [byKey, byObject, byDevice]) {
    expect([status, code]).toEqual([500, 'SecretUnreadable']);
    expect(text).toContain('Trying again does not help');
  }
  expect(errors).toHaveLength(3);
  for (const message of errors) expect(message).toContain('SVC_MASTER_KEY_FILE lacks the key that sealed it');
});
