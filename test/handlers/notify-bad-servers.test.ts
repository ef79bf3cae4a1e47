/**
 * Servers of event targets that answer garbage, without end, or not at all, behind the client library of each kind of target: the events
 * stay queued, the warning says why, and another target is served beside them.
 */
import { randomBytes } from 'node:crypto';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { keysIn, openNotifyWorld, rule, until } from '../support/notify-world.ts';
import { openWebhookSink } from '../support/webhook-sink.ts';

/** Also `\r\n`, at which parsers of lines stop. */
const garbage = Buffer.concat([
  randomBytes(2_000),
  Buffer.from('\r\n'),
  randomBytes(2_000),
  Buffer.from('\r\n'),
]);

function pourForever(socket: Socket): void {
  const pour = (): void => {
    while (socket.writable && socket.write(garbage));
  };
  socket.on('drain', pour);
  pour();
}

const behaviours = {
  garbage: (socket) => void socket.end(garbage),
  flood: pourForever,
  hang: () => {},
  close: (socket) => void socket.destroy(),
} satisfies Readonly<Record<string, (socket: Socket) => void>>;

async function openBadServer(behave: (socket: Socket) => void) {
  const open = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => {});
    // A server that reads nothing would not notice the end.
    socket.resume();
    behave(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    open,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const kinds: Readonly<
  Record<string, (host: string) => { readonly url: string; readonly [field: string]: string }>
> = {
  webhook: (host) => ({ url: `http://${host}/` }),
  nats: (host) => ({ url: `nats://${host}`, subject: 's' }),
  redis: (host) => ({ url: `redis://${host}`, key: 'k', password: 'p' }),
  postgres: (host) => ({ url: `postgres://${host}/d`, table: 't', username: 'u', password: 'p' }),
  mqtt: (host) => ({ url: `mqtt://${host}`, topic: 't' }),
  amqp: (host) => ({ url: `amqp://${host}`, routingKey: 'k' }),
  sqs: (host) => ({ url: `http://${host}/q`, region: 'r', username: 'u', password: 'p' }),
  kafka: (host) => ({ url: `kafka://${host}`, topic: 't' }),
};

test.each(Object.entries(kinds))(
  'servers of type %s that answer garbage, without end, never or not at all keep their events queued and delay no other target',
  async (type, fieldsOf) => {
    await using good = await openWebhookSink();
    await using stack = new AsyncDisposableStack();
    const servers = new Map<string, Awaited<ReturnType<typeof openBadServer>>>();
    for (const [name, behave] of Object.entries(behaviours))
      servers.set(name, stack.use(await openBadServer(behave)));
    const targets = [...servers].map(([name, { host }]) => ({ id: name, type, ...fieldsOf(host) }));
    await using world = await openNotifyWorld({
      targets: [...targets, { id: 'good', url: good.url }],
      rules: [...servers.keys(), 'good'].map((id) => rule(id, { prefix: `${id}/` })),
      settings: { SVC_NOTIFY_TIMEOUT: '2s' },
    });
    for (const name of servers.keys()) await world.client.put(`/bucket/${name}/key`, { body: 'x' });
    world.worker.start();
    await world.client.put('/bucket/good/key', { body: 'x' });
    await vi.waitFor(() => expect(keysIn(good.received)).toEqual(['good/key']), until);
    // The good target may be late while a client library is loaded.
    const warned = () =>
      new Map(
        world.warned
          .filter(({ target }) => target !== 'good')
          .map(({ target, error }) => [String(target), String(error)]),
      );
    await vi.waitFor(() => expect([...warned().keys()].sort()).toEqual([...servers.keys()].sort()), until);
    for (const [, error] of warned()) expect(error).toMatch(/^the sink (answered|cannot|did not) .{3}/);
    await world.worker.stop();
    const queued = (await world.queued()).map(({ sink }) => sink);
    for (const name of servers.keys()) expect(queued.filter((sink) => sink === name)).toHaveLength(2);
    // No connection stays open, so nothing that a server goes on to send is read.
    for (const [name, server] of servers) {
      expect([name, server.connections() > 0]).toEqual([name, true]);
      await vi.waitFor(() => expect([name, server.open.size]).toEqual([name, 0]), until);
    }
  },
);
