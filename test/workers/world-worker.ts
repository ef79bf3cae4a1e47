/**
 * Many gateways in one isolate, each with objects of its own and a prefix of the R2 bucket: the headers `x-world` and
 * `x-world-id` say which, and `x-time` what its clock shows. A request without a world is a call of an object. Bundled
 * for workerd.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { withLength } from '../../src/adapters.ts';
import { createGateway } from '../../src/admin-gateway.ts';
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import type { Gateway } from '../../src/gateway.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { fromRequest, toResponse } from '../../src/protocol/fetch.ts';
import type { MetadataNamespace } from '../../src/runtime/cloudflare.ts';
import { NamedMetadata } from './named-metadata.ts';
import { answerObjectCall } from './object-calls.ts';
import { openWorldContext, type World } from './world-context.ts';

const readSystemTime = Date.now.bind(Date);
/** What the clocks of worlds show that have their own. */
const times = new Map<string, number>();
const requestWorld = new AsyncLocalStorage<string>();
/** The clock of a gateway reads the time here. */
Date.now = () => times.get(requestWorld.getStore() ?? '') ?? readSystemTime();

export class WorldMetadata extends NamedMetadata {
  protected override clock(): Clock {
    return { ...systemClock, now: () => times.get(this.gatewayName) ?? readSystemTime() };
  }
}

interface Env {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
}

/**
 * What the gateway leaves of a body is read too: workerd alone would close the connection, perhaps before the client
 * has read the reply.
 */
class WholeBody {
  readonly #pieces: AsyncIterator<Uint8Array>;
  constructor(body: AsyncIterable<Uint8Array>) {
    this.#pieces = body[Symbol.asyncIterator]();
  }

  async *read(): AsyncGenerator<Uint8Array> {
    for (let next = await this.#pieces.next(); !next.done; next = await this.#pieces.next()) yield next.value;
  }

  async drain(): Promise<void> {
    while (!(await this.#pieces.next()).done);
  }
}

const gateways = new Map<string, Promise<Gateway>>();

interface Execution {
  waitUntil(promise: Promise<unknown>): void;
}

async function answer(
  request: Request,
  sent: string,
  { env, execution }: { env: Env; execution: Execution },
) {
  const open = async (): Promise<Gateway> => {
    const world = JSON.parse(decodeURIComponent(sent)) as World;
    return createGateway(await openWorldContext(world, env), { basePath: world.basePath });
  };
  const opening = gateways.get(sent) ?? open();
  gateways.set(sent, opening);
  const gateway = await opening;
  const incoming = fromRequest(request, { remote: '127.0.0.1' });
  const body = incoming.body && new WholeBody(incoming.body);
  const replying = gateway.handle({ ...incoming, body: body?.read() });
  execution.waitUntil(replying.catch(() => undefined));
  const reply = await replying;
  await body?.drain();
  return withLength(toResponse(reply, request.method));
}

export default {
  async fetch(request: Request, env: Env, execution: Execution) {
    const id = request.headers.get('x-world-id') ?? '';
    const time = request.headers.get('x-time');
    if (time !== null) times.set(id, Number(time));
    const sent = request.headers.get('x-world');
    if (sent === null) return answerObjectCall(request, env.SLUICE);
    return requestWorld.run(id, () => answer(request, sent, { env, execution }));
  },
};
