/** A request is paused right before a commit, as in a suspended machine, while others change what it has read; then it goes on. */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { alice, type GatewayWorld } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';
import { pausedProcess } from '../support/paused-process.ts';
import { openSite, rowsOf, sendObject, versionAt, written } from '../support/replicas.ts';

/** A gateway in another process over the same stores, which can be paused. */
function otherProcess({ context }: GatewayWorld) {
  const process = pausedProcess(context);
  const gateway = createGateway(process.context, { basePath: '' });
  return { ...process, client: openClient(gateway, context.clock, { credential: alice }) };
}

describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('a removal of the only version that was paused hides no replica that arrived behind that version meanwhile', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const local = await client.put('/bucket/key', { body: 'local' });
    const late = otherProcess(site);
    late.pauseBefore('commit', 'objects');
    const removing = late.client.delete(`/bucket/key?versionId=${local.header('*-version-id')}`);
    await late.stands;
    const version = versionAt(Date.now() - 10_000);
    const sent = await sendObject(client, '/bucket/key', written('replica', { version }), 'replica');
    expect(sent.header('*-replica-outcome'), sent.text).toBe('stored');
    late.goOn();
    expect((await removing).status).toBe(204);
    expect((await rowsOf(site.context, 'bucket', 'key')).map((row) => row.version)).toEqual([version]);
    expect((await client.get('/bucket/key')).text).toBe('replica');
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual(['key']);
    expect(await site.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
  });

  test('a removal of the latest version that was paused makes the newest of the others the latest, also a replica that arrived meanwhile', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const versions = [30_000, 10_000].map((ago) => versionAt(Date.now() - ago));
    const [oldest = '', newer = ''] = versions;
    const local = await client.put('/bucket/key', { body: 'local' });
    await sendObject(client, '/bucket/key', written('oldest', { version: oldest }), 'oldest');
    const late = otherProcess(site);
    late.pauseBefore('commit', 'objects');
    const removing = late.client.delete(`/bucket/key?versionId=${local.header('*-version-id')}`);
    await late.stands;
    await sendObject(client, '/bucket/key', written('newer', { version: newer }), 'newer');
    late.goOn();
    expect((await removing).status).toBe(204);
    expect((await client.get('/bucket/key')).text).toBe('newer');
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([newer, oldest]);
  });
});
