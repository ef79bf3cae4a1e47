/** The gateway of a test server, from its start to a `reset`: everything in memory, on a clock that tests advance. */
import { nodeHasher } from '../../backends/crypto/node.ts';
import { memoryStore } from '../../backends/metadata/memory-store.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { createStorageGateway } from '../../gateway.ts';
import { openPortable } from '../../portable-context.ts';
import { systemClock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import { systemRandom } from '../../ports/random.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { amz, unsignedPayload } from '../../protocol/dialect.ts';
import { findRequestId, type Reply } from '../../protocol/reply.ts';
import { type Incoming, WireHeaders } from '../../protocol/wire.ts';
import { signer } from '../../signing/sign-request.ts';
import { encode } from '../../signing/signing-key.ts';
import { type ObservedEvent, observeEvents } from './observed-events.ts';
import { TestClock } from './test-clock.ts';

export type SeedBody = string | Uint8Array;

export interface SeedObject {
  readonly body: SeedBody;
  readonly contentType?: string;
  /** User metadata, by names without prefix. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly tags?: Readonly<Record<string, string>>;
}

/** Objects by key, in buckets by name: `{ photos: { 'a/cat.jpg': bytes, 'notes.txt': { body: 'hello', tags: { kind: 'note' } } } }` */
export type Seed = Readonly<Record<string, Readonly<Record<string, SeedBody | SeedObject>>>>;

export interface MemoryGateway {
  readonly clock: Pick<TestClock, 'now'>;
  answer(incoming: Incoming): Promise<Answer>;
  /** @throws Error with the refusal of the first object that is refused */
  seed(seed: Seed): Promise<void>;
  /** Moves the time on, and runs what is due meanwhile. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

interface Answer {
  readonly reply: Reply;
  /** `Unknown` where the request was refused before it was selected. */
  readonly operation: string;
  readonly code: string | undefined;
}

interface MemoryGatewayOptions {
  readonly onEvent: (event: ObservedEvent) => void;
  /** Gets the log; dropped where it is absent. */
  readonly log?: Telemetry['log'] | undefined;
}

const dayMs = 86_400_000;
/** A time of more days passes in longer steps. */
const stepsMax = 400;
/** The client's address in the events of seeds, which are not observed. */
const seeding = 'seed';

export function openMemoryGateway(config: Config, { onEvent, log }: MemoryGatewayOptions): MemoryGateway {
  const clock = new TestClock();
  const random = systemRandom();
  const outcomes = new Map<string, Omit<Answer, 'reply'>>();
  const telemetry = log === undefined ? silentTelemetry : { ...silentTelemetry, log };
  const metadata = observeEvents(memoryStore({ clock, random }), (event) => {
    if (event.requestParameters.sourceIPAddress !== seeding) onEvent(event);
  });
  const { context: portable, close } = openPortable(config, { clock, telemetry, metadata });
  // Events of best effort are rows that nothing stores: `observeEvents` takes them out of their commits.
  const application = { onEvent: () => {}, eventDelivery: 'best-effort' } as const;
  const context: Context = { ...portable, hasher: nodeHasher(), signingClock: clock.signing, application };
  const { handle } = createStorageGateway(context, {
    onAnswer: ({ requestId, operation }, code) => void outcomes.set(requestId, { operation, code }),
  });
  const answer: MemoryGateway['answer'] = async (incoming) => {
    const reply = await handle(incoming);
    const requestId = findRequestId(reply) ?? '';
    const outcome = outcomes.get(requestId) ?? { operation: 'Unknown', code: undefined };
    outcomes.delete(requestId);
    return { reply, ...outcome };
  };
  const put = putter(context, answer);
  const work = backgroundWork(context);
  return {
    clock,
    answer,
    async seed(seed) {
      if (!isSeed(seed))
        throw new TypeError(
          `seed: needs buckets with their objects, such as { photos: { 'cat.jpg': 'meow' } }`,
        );
      for (const [bucket, objects] of Object.entries(seed)) {
        await put(`/${bucket}`, { body: '' });
        for (const [key, input] of Object.entries(objects)) {
          const seeded = isBody(input) ? { body: input } : input;
          if (!isBody(seeded?.body))
            throw new TypeError(`seed: the body of ${bucket}/${key} must be a string or a Uint8Array`);
          await put(`/${bucket}/${key.split('/').map(encode).join('/')}`, seeded);
        }
      }
    },
    async advance(ms) {
      const stepMs = Math.max(dayMs, ms / stepsMax);
      for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
        clock.advance(Math.min(stepMs, leftMs));
        await work();
      }
      if (ms === 0) await work();
      await clock.untilSigned();
    },
    close,
  };
}

const isObject = (input: unknown): boolean => typeof input === 'object' && input !== null;

const isSeed = (seed: unknown): boolean =>
  isObject(seed) && !Array.isArray(seed) && Object.values(seed as object).every(isObject);

const isBody = (input: unknown): input is string | Uint8Array =>
  typeof input === 'string' || input instanceof Uint8Array;

/** Sends PUT requests of the configured credentials. @throws Error for one that is refused */
function putter(
  { config, hasher }: { readonly config: Config; readonly hasher: Hasher },
  answer: (incoming: Incoming) => Promise<Answer>,
) {
  const [credential] = config.SVC_CREDENTIALS ?? [];
  if (credential === undefined) throw new Error('the settings have no credentials');
  const sign = signer({ hasher, clock: systemClock, region: config.SVC_REGION, ...credential });
  return async (path: string, { body, contentType, metadata = {}, tags = {} }: SeedObject): Promise<void> => {
    const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
    const tagging = Object.entries(tags).map(([name, value]) => `${encode(name)}=${encode(value)}`);
    const headers = {
      host: 'localhost',
      'content-length': String(bytes.length),
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...Object.fromEntries(
        Object.entries(metadata).map(([name, value]) => [
          `${amz.headerPrefix}meta-${name.toLowerCase()}`,
          value,
        ]),
      ),
      ...(tagging.length === 0 ? {} : { [`${amz.headerPrefix}tagging`]: tagging.join('&') }),
    };
    const signed = sign({ method: 'PUT', path, query: [], headers, payloadHash: unsignedPayload });
    const wire = {
      method: 'PUT',
      target: signed.target,
      headers: new WireHeaders(Object.entries(signed.headers).flat()),
      remote: seeding,
      secure: false,
    };
    const signal = new AbortController().signal;
    const { reply } = await answer({ wire, body: once(bytes), signal, listener: 'storage' });
    if (reply.status >= 300)
      throw new Error(`seed: PUT ${path} was refused: ${String(reply.body ?? reply.status)}`);
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

const unitsMax = 100_000;

/** One pass of the background work whose results a client sees. Loaded when the time is first advanced, which few tests do. */
function backgroundWork(context: Context): () => Promise<void> {
  const { signal } = new AbortController();
  const open = async () => {
    const [lifecycle, accessLog, inventory, gc, sweeper] = await Promise.all([
      import('../../workers/lifecycle.ts'),
      import('../../workers/deliveries.ts'),
      import('../../workers/inventory.ts'),
      import('../../workers/gc.ts'),
      import('../../domain/storage/sweep.ts'),
    ]);
    return [
      lifecycle.carryOutLifecycles(context),
      accessLog.deliverAccessLogs(context),
      inventory.writeInventories(context),
      gc.collectGarbage(context),
      () => sweeper.sweep(context, signal),
    ];
  };
  let opened: ReturnType<typeof open> | undefined;
  let running = Promise.resolve();
  const pass = async (): Promise<void> => {
    opened ??= open();
    for (const unit of await opened)
      for (let units = 0; units < unitsMax && (await unit(signal)) === 'busy'; units += 1);
  };
  // Passes run one after another: a unit is not made for two at a time.
  return () => {
    running = running.then(pass, pass);
    return running;
  };
}
