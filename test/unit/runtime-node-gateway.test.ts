/** The whole gateway behind the Node listener: what it learns of a client, and what it does when a request fails inside. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { alice, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { loadClient } from '../support/load-client.ts';
import { serveStub } from '../support/server-stub.ts';
import { signer } from '../support/sign.ts';

type Bytes = Context['bytes'];

async function openBehindNode(faults: Partial<Bytes>, options: GatewayWorldOptions = {}) {
  const world = await openGateway({
    ...options,
    wrap: (context) => ({ ...context, bytes: { ...context.bytes, ...faults } }),
  });
  const { port } = await serveStub((incoming) => world.gateway.handle(incoming));
  const address = `127.0.0.1:${port}`;
  return { world, port, address, client: loadClient(`http://${address}`, alice, 1) };
}

const large = 'x'.repeat(100_000);

test('a request whose body was read and that fails inside is InternalError, with its cause in the log', async () => {
  const logged = new Map<string, unknown>();
  const telemetry = {
    ...silentTelemetry,
    log: (_: string, message: string, fields: unknown) => logged.set(message, fields),
  };
  const { world, client } = await openBehindNode(
    { write: () => Promise.reject(new Error('the disk is on fire')) },
    { telemetry },
  );
  await using _ = world;
  await client.expect({ method: 'PUT', path: '/bucket' });
  const refused = await client.send({ method: 'PUT', path: '/bucket/key', body: large });
  expect([refused.status, refused.text]).toEqual([
    500,
    expect.stringContaining('<Code>InternalError</Code>'),
  ]);
  expect(logged.get('request failed')).toMatchObject({ cause: { message: 'the disk is on fire' } });
  client.close();
});

test('a write ends when its client disconnects', async () => {
  const begun = Promise.withResolvers<AbortSignal | undefined>();
  const { world, client, port, address } = await openBehindNode({
    write: async (_, { signal }) => {
      begun.resolve(signal);
      return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    },
  });
  await using _ = world;
  await client.expect({ method: 'PUT', path: '/bucket' });
  const { headers, target } = signer({ ...alice, host: address }).request({
    method: 'PUT',
    path: '/bucket/key',
    body: large,
  });
  const lines = headers.map((pair) => `${pair.join(': ')}\r\n`).join('');
  const socket = connect(port, '127.0.0.1');
  socket.write(`PUT ${target} HTTP/1.1\r\n${lines}\r\n${large}`);
  const signal = await begun.promise;
  expect(signal?.aborted).toBe(false);
  const ended = new Promise((resolve) => signal?.addEventListener('abort', resolve));
  socket.destroy();
  await ended;
  client.close();
});
