/** Health and metrics on the storage listener or on a separate one. */
import { describe, expect, it } from 'vitest';
import { WireHeaders } from '../../src/protocol/wire.ts';
import { openGateway, operator } from '../support/gateway.ts';

describe('areas', () => {
  it('answer every caller that the service is alive and ready', async () => {
    await using world = await openGateway();
    for (const path of ['/healthz', '/readyz']) expect((await world.anonymous.get(path)).status).toBe(200);
  });

  it('show metrics to operators and to requests with the token only', async () => {
    await using world = await openGateway({ settings: { SVC_METRICS_TOKEN: 'a-token-of-the-test' } });
    expect((await world.client.get('/metrics')).status).toBe(403);
    expect((await world.anonymous.get('/metrics')).status).toBe(403);
    expect((await world.as({ credential: operator }).get('/metrics')).status).toBe(200);
    const bearing = (token: string) =>
      world.anonymous.get('/metrics', { headers: { authorization: `Bearer ${token}` } });
    expect((await bearing('a-token-of-the-test')).status).toBe(200);
    expect((await bearing('another-token')).status).toBe(403);
  });

  it('keep to their listener where there are two', async () => {
    await using world = await openGateway();
    const ask = async (target: string, listener: 'admin' | 'storage') => {
      const wire = {
        method: 'GET',
        target,
        headers: new WireHeaders(['host', 'localhost']),
        remote: '',
        secure: false,
      };
      const { status } = await world.gateway.handle({
        wire,
        body: undefined,
        signal: new AbortController().signal,
        listener,
      });
      return status;
    };
    expect(await ask('/healthz', 'admin')).toBe(200);
    expect(await ask('/healthz', 'storage')).toBe(404);
    expect(await ask('/some-bucket', 'admin')).toBe(404);
    expect(await ask('/', 'storage')).toBe(200);
  });
});
