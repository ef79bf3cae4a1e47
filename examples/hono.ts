/**
 * The gateway inside a Hono application, under a path and under a host of its own. Run it with any server for
 * Hono; what this file needs is the library, not a runtime.
 *
 * ```sh
 * aws --endpoint-url http://localhost:3000/s3 s3 mb s3://photos      # under the path
 * aws --endpoint-url http://s3.example.com s3 cp cat.jpg s3://photos  # under the host
 * ```
 */
import { Hono } from 'hono';
import {
  bodyBudget,
  Caches,
  type Context,
  chunked,
  createGateway,
  cipherKeyBytes,
  masterSealer,
  memoryChunks,
  lateWrites,
  memoryStore,
  openClusterStates,
  parseConfig,
  portableCipher,
  portableHasher,
  noSiblings,
  silentTelemetry,
  staticCredentials,
  systemClock,
  systemRandom,
} from '../src/mod.ts';

export interface Settings {
  /** A JSON array of `{ accessKey, secretKey, owner }`. */
  readonly credentials: string;
  /** The host under which the gateway answers alone, with `<bucket>.<host>` beside it. */
  readonly host: string;
}

/** Everything in memory. On Node, `compose(config, …)` of `sluice/node` gives a context over the durable backends. */
function contextFrom({ credentials, host }: Settings): Context {
  const config = parseConfig({ SVC_CREDENTIALS: credentials, SVC_DOMAIN: host });
  if ('faults' in config) throw new Error(config.faults.join('\n'));
  const random = systemRandom();
  const hasher = portableHasher();
  const cipher = portableCipher();
  const metadata = memoryStore({ clock: systemClock, random });
  const bytes = chunked({ default: memoryChunks() });
  return {
    caches: new Caches(),
    config,
    metadata,
    lateWrites: lateWrites({ metadata, clock: systemClock, telemetry: silentTelemetry }),
    bytes,
    clusterStates: openClusterStates({
      metadata,
      bytes,
      clock: systemClock,
      telemetry: silentTelemetry,
      siblings: noSiblings,
    }),
    bodyMemory: bodyBudget(config.SVC_MEMORY_MAX / 8),
    siblings: noSiblings,
    clock: systemClock,
    random,
    hasher,
    cipher,
    credentials: staticCredentials(config.SVC_CREDENTIALS ?? []),
    // What it seals lasts as long as this process, like everything in memory.
    sealer: masterSealer({ keys: [random.bytes(cipherKeyBytes)], cipher, hasher, random }),
    telemetry: silentTelemetry,
  };
}

export function application(settings: Settings): Hono {
  const context = contextFrom(settings);
  const underHost = createGateway(context);
  // Signatures cover the whole path, so the gateway must know what its addresses begin with.
  const underPath = createGateway(context, { basePath: '/s3' });

  const app = new Hono();
  // First, because on this host every path is a bucket or a key. The raw request goes on: its body is a stream.
  app.use(async ({ req }, next) => {
    const name = (req.header('host') ?? new URL(req.url).host).replace(/:\d+$/, '').toLowerCase();
    const isOurs = name === settings.host || name.endsWith(`.${settings.host}`);
    return isOurs ? underHost.fetch(req.raw) : next();
  });
  app.get('/', ({ text }) => text('the application’s own page'));
  app.all('/s3', ({ req }) => underPath.fetch(req.raw));
  app.all('/s3/*', ({ req }) => underPath.fetch(req.raw));
  return app;
}
