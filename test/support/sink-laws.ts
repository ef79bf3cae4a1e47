/** The laws of every event target, which the suites in `test/sinks` run on real servers. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { changingDns } from './changing-dns.ts';
import { openCuttingProxy } from './cutting-proxy.ts';
import { openDice } from './dice.ts';
import {
  noSinkServer,
  type SinkServer,
  type SinkServerName,
  startSinkServer,
} from './engines/sink-servers.ts';
import { exportingTracer } from './exporting-tracer.ts';
import { openNotifyWorld, rule, until } from './notify-world.ts';
import { type SinkTls, writeSinkTls } from './sink-tls.ts';

type Fields = Readonly<Record<string, string>>;

/** What a suite opens on its started server. */
export interface Receiver extends AsyncDisposable {
  /** The fields of the target, without its id. */
  readonly target: Fields & { readonly url: string };
  /** The bodies that have arrived, the oldest first. */
  bodies(): Promise<readonly string[]>;
  /** The `traceparent` of each of them; '' for none. Absent where messages have nothing but a body. */
  causes?(): Promise<readonly string[]>;
  /** Fields of a target that has no stream, queue or topic, and what the warning says to do. */
  readonly nowhere?: { readonly fields: Fields; readonly hint: RegExp };
  /** After the server was started again. */
  afterRestart?(): Promise<void>;
}

export interface SinkSuite {
  readonly server: SinkServerName;
  /** The system and the operation of a delivery, as the semantic conventions of OpenTelemetry name them. */
  readonly messaging: readonly [system: string, operation: string];
  readonly environment?: Fields;
  /** Opens a new stream, queue or table. */
  open(port: number): Promise<Receiver>;
  /** Opens one that cannot store the character of `unstorableKey`, where the server has such. */
  openNarrow?(port: number): Promise<Receiver>;
  /** Opens one that refuses events of `breakingKey` itself, where clients do not stay with the address that they are given. */
  openBreakable?(port: number): Promise<Receiver>;
  readonly breakingKey?: string;
  /** Why there is no law about a wrong password. */
  readonly noPassword?: string;
  /** The URL by which the server takes TLS, from clients with a certificate. Its host is an address. */
  tlsUrl(port: number, url: string): Promise<string>;
  /** Why the server is paused, but not killed. */
  readonly forgets?: string;
  /** A kill loses what was acknowledged and has not arrived at a reader, so the server is killed when everything has arrived. */
  readonly losesUnread?: true;
}

interface Event {
  readonly key: string;
  readonly name: string;
}
type Message = {
  readonly Records?: readonly {
    readonly eventName: string;
    readonly s3: { readonly object: { readonly key: string; readonly sequencer: string } };
  }[];
};

const eventsIn = (bodies: readonly string[]): readonly Event[] =>
  bodies.flatMap((body) =>
    ((JSON.parse(body) as Message).Records ?? []).map(({ eventName, s3 }) => ({
      key: s3.object.key,
      name: eventName,
    })),
  );
const namesOf = (events: readonly Event[], key: string): readonly string[] =>
  events.filter((event) => event.key === key).map(({ name }) => name);

/** Percent-encoded: control characters, a line break, characters that Unicode keeps free, one of four bytes, and separators. */
const strangeKeys = [
  '%01',
  '%0D%0AX:%20y',
  '%7F',
  '%C2%85',
  '%EF%BF%BE',
  '%EF%B7%90',
  '%F0%9F%A6%AD',
  '%22%27%3B%24%3E%2A',
];

/** A character of four bytes. */
const unstorableKey = '%F0%9F%A6%AD';

const created = 'ObjectCreated:Put';
const removed = 'ObjectRemoved:Delete';

export function sinkLaws(suite: SinkSuite): void {
  const {
    server: name,
    messaging,
    environment,
    open,
    openNarrow,
    openBreakable,
    breakingKey,
    noPassword,
    forgets,
    losesUnread,
    tlsUrl,
  } = suite;
  const missing = noSinkServer(name);
  describe.skipIf(missing !== undefined)(`${name}${missing === undefined ? '' : `: ${missing}`}`, () => {
    let server: SinkServer;
    let tls: SinkTls;
    beforeAll(async () => {
      tls = writeSinkTls();
      server = await startSinkServer(name, { ...environment, SINK_TLS: tls.directory });
    });
    afterAll(async () => {
      await server?.[Symbol.asyncDispose]();
      tls[Symbol.dispose]();
    });

    const openWorld = async (
      receiver: Receiver,
      settings: Fields = {},
      fields: Fields = {},
      wrap: (context: Context) => Context = (context) => context,
    ) =>
      openNotifyWorld({
        wrap,
        targets: [{ id: 'sink', ...receiver.target, ...fields }],
        rules: [rule('sink')],
        settings: { SVC_NOTIFY_TIMEOUT: '2s', ...settings },
      });
    type World = Awaited<ReturnType<typeof openWorld>>;
    const change = async ({ client }: World, keys: readonly string[]): Promise<void> => {
      for (const key of keys) {
        await client.put(`/bucket/${key}`, { body: 'x' });
        await client.delete(`/bucket/${key}`);
      }
    };
    const untilDelivered = ({ queued, clock }: World): Promise<void> =>
      vi.waitFor(async () => {
        clock.hurry(1_000);
        expect(await queued()).toEqual([]);
      }, until);
    const untilWarned = ({ warned }: World, message: RegExp): Promise<void> =>
      vi.waitFor(
        () => expect(warned.map(({ error }) => error)).toContainEqual(expect.stringMatching(message)),
        until,
      );
    const untilArrived = (receiver: Receiver, keys: readonly string[]): Promise<void> =>
      vi.waitFor(async () => {
        const events = eventsIn(await receiver.bodies());
        for (const key of keys) {
          const names = namesOf(events, key);
          expect(names.indexOf(created)).toBeGreaterThanOrEqual(0);
          expect(names.indexOf(removed)).toBeGreaterThan(names.indexOf(created));
          expect(names.at(-1)).toBe(removed);
        }
      }, until);
    const keys = Array.from({ length: 20 }, (_, n) => `key-${n}`);

    test('gets each change of an object once and in order, after the test event, with the trace of its delivery', async () => {
      const { wrap, exported } = exportingTracer();
      await using receiver = await open(server.port);
      await using world = await openWorld(receiver, {}, {}, wrap);
      await change(world, keys);
      world.worker.start();
      await untilDelivered(world);
      await untilArrived(receiver, keys);
      const bodies = await receiver.bodies();
      expect(bodies.filter((body) => body.includes('s3:TestEvent'))).toHaveLength(1);
      expect(eventsIn(bodies)).toHaveLength(2 * keys.length);
      expect(world.warned).toEqual([]);
      const deliveries = exported.filter(({ operation }) => operation === 'worker:notify');
      const { topic, subject, routingKey, key, table, url } = receiver.target as Fields;
      const [system, operation] = messaging;
      expect(deliveries.length).toBeGreaterThan(0);
      for (const { kind, attributes } of deliveries)
        expect({ kind, ...attributes }).toMatchObject({
          kind: 'producer',
          'messaging.system': system,
          'messaging.operation.type': 'send',
          'messaging.operation.name': operation,
          'messaging.destination.name':
            topic ?? subject ?? routingKey ?? key ?? table ?? url?.split('/').at(-1),
          'messaging.batch.message_count': expect.any(Number),
          'server.address': '127.0.0.1',
          'server.port': server.port,
          'sluice.target': 'sink',
        });
      if (receiver.causes === undefined) return;
      const spans = deliveries.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`);
      const causes = await receiver.causes();
      expect(causes).toHaveLength(bodies.length);
      expect(spans).toEqual(expect.arrayContaining([...new Set(causes)]));
    });

    test('gets the events of keys with any characters, so no key holds up those of others', async () => {
      await using receiver = await open(server.port);
      await using world = await openWorld(receiver);
      await change(world, [...strangeKeys, 'plain']);
      world.worker.start();
      await untilDelivered(world);
      await vi.waitFor(
        async () => expect(eventsIn(await receiver.bodies())).toHaveLength(2 * (strangeKeys.length + 1)),
        until,
      );
      expect(world.warned).toEqual([]);
    });

    test.skipIf(openNarrow === undefined)(
      'that cannot store a character of a key makes dead letters of its events, and gets those behind them',
      async () => {
        await using receiver = await (openNarrow ?? open)(server.port);
        await using world = await openWorld(receiver, {}, { envelope: 'cloudevents' });
        await change(world, ['before', unstorableKey, 'after']);
        world.worker.start();
        await untilDelivered(world);
        const subjects = async () =>
          (await receiver.bodies()).map((body) => (JSON.parse(body) as { subject?: string }).subject);
        await vi.waitFor(
          async () =>
            expect((await subjects()).filter((subject) => subject !== undefined).toSorted()).toEqual([
              ...['after', 'after', 'before', 'before'],
            ]),
          until,
        );
        expect(await world.letters()).toHaveLength(2);
      },
    );

    test.skipIf(noPassword !== undefined)(
      'that refuses the password keeps its events queued, and the warning does not contain the password',
      async () => {
        await using receiver = await open(server.port);
        await using world = await openWorld(receiver, {}, { password: 'not-the-password' });
        await change(world, ['key']);
        world.worker.start();
        await untilWarned(world, /auth|password|credential|ACCESS.REFUSED|WRONGPASS/i);
        expect(JSON.stringify(world.warned)).not.toContain('not-the-password');
        await world.worker.stop();
        expect((await world.queued()).length).toBe(3);
        expect(eventsIn(await receiver.bodies())).toEqual([]);
      },
    );

    test('whose stream, queue or topic is missing keeps its events queued, and the warning says what to create', async () => {
      await using receiver = await open(server.port);
      const { nowhere } = receiver;
      // Other servers create it, or the table.
      if (nowhere === undefined) return;
      await using world = await openWorld(receiver, {}, nowhere.fields);
      world.worker.start();
      await untilWarned(world, nowhere.hint);
      await world.worker.stop();
      expect(await world.queued()).toHaveLength(1);
    });

    test('on loopback gets nothing unless SVC_EGRESS_ALLOW contains its address', async () => {
      await using receiver = await open(server.port);
      for (const host of ['127.0.0.1', 'localhost']) {
        const url = receiver.target.url.replace('127.0.0.1', host);
        await using world = await openWorld(receiver, { SVC_EGRESS_ALLOW: '' }, { url });
        world.worker.start();
        await untilWarned(world, /SVC_EGRESS_ALLOW does not contain it/);
        await world.worker.stop();
        expect(await receiver.bodies()).toEqual([]);
      }
    });

    test('by a name whose address changes is reached only at an address that was checked', async () => {
      await using receiver = await open(server.port);
      const url = receiver.target.url.replace('127.0.0.1', 'sink.test');
      const settings = { SVC_EGRESS_ALLOW: '127.0.0.2/32', SVC_NOTIFY_TIMEOUT: '500ms' };
      await using world = await openWorld(receiver, settings, { url });
      // The server listens at 127.0.0.1, which is not allowed.
      using _ = changingDns((_name, n) => [n % 2 === 0 ? '127.0.0.2' : '127.0.0.1']);
      world.worker.start();
      await vi.waitFor(() => {
        world.clock.hurry(1_000);
        expect(world.warned.map(({ error }) => error)).toContainEqual(
          expect.stringMatching(/SVC_EGRESS_ALLOW does not contain it/),
        );
      }, until);
      await world.worker.stop();
      expect(await receiver.bodies()).toEqual([]);
    });

    test('by a name is reached where its address is allowed', async () => {
      await using receiver = await open(server.port);
      const url = receiver.target.url.replace('127.0.0.1', 'sink.test');
      await using world = await openWorld(receiver, { SVC_EGRESS_ALLOW: '127.0.0.1/32' }, { url });
      using dns = changingDns(() => ['127.0.0.1']);
      world.worker.start();
      await untilDelivered(world);
      expect(dns.asked).toContain('sink.test');
    });

    describe('with TLS', () => {
      test('gets its events from a gateway that trusts it and has a certificate', async () => {
        await using receiver = await open(server.port);
        for (const host of ['127.0.0.1', 'localhost']) {
          const url = (await tlsUrl(server.port, receiver.target.url)).replace('127.0.0.1', host);
          await using world = await openWorld(receiver, {}, { ...tls.mutual, url });
          await change(world, [host]);
          world.worker.start();
          await untilDelivered(world);
          expect(world.warned).toEqual([]);
        }
        await untilArrived(receiver, ['127.0.0.1', 'localhost']);
      });

      test.each([
        ['whose authority is not trusted', () => ({ ...tls.mutual, caFile: tls.otherCa }), /certificate/i],
        ['that asks in vain for a certificate', () => ({ caFile: tls.mutual.caFile }), /./],
      ] as const)('%s gets nothing, and the events stay queued', async (_, fields, message) => {
        await using receiver = await open(server.port);
        const url = await tlsUrl(server.port, receiver.target.url);
        await using world = await openWorld(receiver, {}, { ...fields(), url });
        world.worker.start();
        await untilWarned(world, message);
        await world.worker.stop();
        expect(await world.queued()).toHaveLength(1);
        expect(await receiver.bodies()).toEqual([]);
      });

      test('whose certificate has another name gets nothing', async () => {
        await using receiver = await open(server.port);
        const url = (await tlsUrl(server.port, receiver.target.url)).replace('127.0.0.1', 'sink.test');
        await using world = await openWorld(receiver, {}, { ...tls.mutual, url });
        using _ = changingDns(() => ['127.0.0.1']);
        world.worker.start();
        await untilWarned(world, /sink\.test/);
        await world.worker.stop();
        expect(await receiver.bodies()).toEqual([]);
      });
    });

    test('that hangs is given up in time, and gets its events once it answers again', async () => {
      await using receiver = await open(server.port);
      await using world = await openWorld(receiver, { SVC_NOTIFY_TIMEOUT: '500ms' });
      world.worker.start();
      await change(world, ['before']);
      await untilDelivered(world);
      server.pause();
      try {
        await change(world, keys.slice(0, 3));
        await untilWarned(world, /within 500 ms|timed? ?out/i);
      } finally {
        server.resume();
      }
      await untilDelivered(world);
      await untilArrived(receiver, ['before', ...keys.slice(0, 3)]);
    });

    test('that one event breaks gets all others, and those of an object in order through random losses of its connection', async () => {
      const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
      onTestFinished(({ task }) => void (task.result?.state === 'fail' && console.error(`SEED=${seed}`)));
      const dice = openDice(seed);
      await using receiver = await (openBreakable ?? open)(server.port);
      await using proxy = await openCuttingProxy(server.port, dice);
      const url = receiver.target.url.replace(`:${server.port}`, `:${proxy.port}`);
      const [bad, others] = [breakingKey ?? 'the-poison', keys.slice(0, 10)];
      proxy.poison = bad;
      await using world = await openWorld(receiver, {}, { url });
      await change(world, [bad, ...others, bad]);
      world.worker.start();
      await untilArrived(receiver, others);
      const isBad = (body: string): boolean => body.includes(bad);
      expect((await receiver.bodies()).filter(isBad)).toEqual([]);
      proxy.poison = undefined;
      // A server whose brokers are reached by their own addresses refuses the event for good.
      if (breakingKey !== undefined) {
        await untilDelivered(world);
        expect(await world.letters()).toHaveLength(4);
        return;
      }
      proxy.cutOf100 = 10;
      for (let round = 0; round < 4; round += 1) await change(world, others);
      for (let step = 0; step < 20; step += 1) {
        world.clock.hurry(dice.roll(3_000));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      proxy.cutOf100 = 0;
      await untilDelivered(world);
      const sequencers = new Map<string, string[]>();
      await vi.waitFor(async () => {
        sequencers.clear();
        for (const body of await receiver.bodies())
          for (const { s3 } of (JSON.parse(body) as Message).Records ?? []) {
            const seen = sequencers.get(s3.object.key) ?? [];
            // An event may come again.
            if (!seen.includes(s3.object.sequencer)) seen.push(s3.object.sequencer);
            sequencers.set(s3.object.key, seen);
          }
        expect(sequencers.get(bad)).toHaveLength(4);
        for (const key of others) expect(sequencers.get(key)).toHaveLength(10);
      }, until);
      for (const seen of sequencers.values()) expect(seen).toEqual(seen.toSorted());
    });

    test.skipIf(forgets !== undefined)(
      'that is killed has every event in order after its restart',
      async () => {
        await using receiver = await open(server.port);
        await using world = await openWorld(receiver);
        world.worker.start();
        await change(world, keys);
        await vi.waitFor(async () => expect((await receiver.bodies()).length).toBeGreaterThan(3), until);
        if (losesUnread) {
          await untilDelivered(world);
          await untilArrived(receiver, keys);
        }
        await server.kill9();
        const later = keys.map((key) => `later-${key}`);
        await change(world, later);
        await untilWarned(world, /./);
        await world.worker.stop();
        await server.restart();
        await receiver.afterRestart?.();
        world.worker.start();
        await untilDelivered(world);
        await untilArrived(receiver, [...keys, ...later]);
      },
    );
  });
}
