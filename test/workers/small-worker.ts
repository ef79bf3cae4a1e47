/** The Worker of docs/workers.md, without the operator API and in a script of its own. Bundled for workerd. */
import {
  cloudflare,
  type MetadataNamespace,
  openGateway,
  workerHandler,
} from '../../src/runtime/cloudflare.ts';
import type { CloudflareBindings } from '../../src/runtime/workerd.ts';

interface Env extends CloudflareBindings {
  readonly SLUICE: MetadataNamespace;
  readonly SVC_CREDENTIALS: string;
}

let storage: ReturnType<typeof openGateway> | undefined;

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    storage ??= openGateway({
      credentials: JSON.parse(env.SVC_CREDENTIALS),
      storage: cloudflare({ objects: env.BUCKET, metadata: env.SLUICE, masterKey: env.SLUICE_MASTER_KEY }),
    });
    return workerHandler(await storage)(request);
  },
};
