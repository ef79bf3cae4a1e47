/**
 * The gateway whose objects fail between a commit and its side changes in other objects, or between the messages of a
 * split, while a request says so. Bundled for workerd.
 */
import type { Environment } from '../../src/config.ts';
import type { CloudflareBindings, MetadataStub } from '../../src/runtime/cloudflare/bindings.ts';
import gateway, { SluiceMetadata as Metadata } from '../../src/runtime/workerd.ts';

/**
 * What becomes of side changes that an object sends: `refuse` they are not sent; `lose` the other object has them, and the answer is lost;
 * `evict` the object ends before it sends them, with everything in its memory and what is not stored yet; `evict-late` it ends before it
 * learns that the other one has them.
 */
let fault = 'none';
/** Of the calls. */
let share = 1;
/** The calls that fail. */
let names: readonly string[] = [];
/** How many calls may fail. */
let times = Number.POSITIVE_INFINITY;
/** How many calls have failed. */
let met = 0;
/** How often an object has sent side changes to another one. */
let sent = 0;

interface State {
  abort(reason: string): void;
}

export class SluiceMetadata extends Metadata {
  readonly #state: State;

  constructor(ctx: unknown, env: CloudflareBindings) {
    super(ctx, env);
    this.#state = ctx as State;
  }

  protected override stub(shard: number): MetadataStub {
    const stub = super.stub(shard);
    return {
      join: (place) => stub.join(place),
      call: async (name, args, place) => {
        if (name === 'receive') sent += 1;
        const isBroken = fault !== 'none' && names.includes(name) && met < times;
        // The first one in any case, so that each run has met a fault.
        const isHit = isBroken && (met === 0 || Math.random() < share);
        if (!isHit) return stub.call(name, args, place);
        met += 1;
        const how = fault;
        if (how === 'lose' || how === 'evict-late') await stub.call(name, args, place);
        if (how.startsWith('evict')) this.#state.abort('evicted by the test');
        throw new Error('Network connection lost.');
      },
    };
  }
}

export default {
  async fetch(
    request: Request,
    env: Environment,
    execution: { waitUntil(promise: Promise<unknown>): void },
  ): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const asked = searchParams.get('break-shards');
    if (asked === null) return gateway.fetch(request, env, execution);
    if (asked === 'met') return Response.json(met);
    if (asked === 'sent') return Response.json(sent);
    fault = asked;
    names = (searchParams.get('names') ?? 'receive').split(',');
    share = Number(searchParams.get('share') ?? 1);
    times = Number(searchParams.get('times') ?? Number.POSITIVE_INFINITY);
    return new Response();
  },
};
