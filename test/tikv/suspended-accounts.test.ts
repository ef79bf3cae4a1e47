/** An account of the settings that another gateway suspends is refused within `SVC_CONFIG_CACHE_TTL` (docs/operations/accounts.md). */
import { expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { sharedTikv } from '../simulation/shared-store.ts';
import { alice, operator } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';
import { describeOnDouble } from './on-double.ts';

const ttlMs = 60_000;

describeOnDouble('accounts of the settings', {}, (engine) => {
  test('an account that another gateway suspends is refused as soon as SVC_CONFIG_CACHE_TTL has passed, however recent its last request is', async () => {
    await using store = sharedTikv(await engine);
    let elapsedMs = 0;
    const clock = { ...systemClock, elapsed: () => elapsedMs };
    const config = configWith({
      ...store.env,
      SVC_DATA_DIR: store.dataDir,
      SVC_CONFIG_CACHE_TTL: `${ttlMs}ms`,
    });
    const open = async () => {
      const { context, close } = await compose(config, { credentials: [alice, operator], clock });
      const as = (credential: typeof alice) =>
        openClient(createGateway(context), systemClock, { credential });
      return { as, [Symbol.asyncDispose]: close };
    };
    await using here = await open();
    await using there = await open();
    const client = there.as(alice);
    expect((await client.get('/')).status).toBe(200);
    const path = `/admin/v1/accounts/${alice.owner}`;
    const body = JSON.stringify({ status: 'Suspended' });
    expect((await here.as(operator).put(path, { body })).status).toBe(200);
    expect((await here.as(alice).get('/')).code).toBe('AccountProblem');
    elapsedMs = ttlMs - 1;
    // Still the cached state, without which this test would show nothing.
    expect((await client.get('/')).status).toBe(200);
    elapsedMs = ttlMs;
    expect((await client.get('/')).code).toBe('AccountProblem');
  });
});
