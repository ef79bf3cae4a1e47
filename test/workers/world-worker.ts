/** Many gateways in one isolate, each with objects of its own and a prefix of the R2 bucket: the header `x-world` says which. Bundled for workerd. */
import { withLength } from '../../src/adapters.ts';
import type { R2Bucket } from '../../src/backends/data/r2.ts';
import { createGateway, type Gateway } from '../../src/gateway.ts';
import { fromRequest, toResponse } from '../../src/protocol/fetch.ts';
import type { MetadataNamespace } from '../../src/runtime/cloudflare.ts';
import { NamedMetadata } from './named-metadata.ts';
import { openWorldContext, type World } from './world-context.ts';

export { NamedMetadata as WorldMetadata };

interface Env {
  readonly BUCKET: R2Bucket;
  readonly SLUICE: MetadataNamespace;
}

const gateways = new Map<string, Promise<Gateway>>();

export default {
  async fetch(request: Request, env: Env, execution: { waitUntil(promise: Promise<unknown>): void }) {
    const sent = request.headers.get('x-world') ?? '';
    const open = async (): Promise<Gateway> =>
      createGateway(await openWorldContext(JSON.parse(decodeURIComponent(sent)) as World, env));
    const opening = gateways.get(sent) ?? open();
    gateways.set(sent, opening);
    const gateway = await opening;
    const replying = gateway.handle(fromRequest(request, { remote: '127.0.0.1' }));
    execution.waitUntil(replying.catch(() => undefined));
    return withLength(toResponse(await replying, request.method));
  },
};
