import {
  cloudflare,
  type MetadataNamespace,
  type OpenGateway,
  openGateway,
  type R2Bucket,
  workerHandler,
} from '../../src/runtime/cloudflare.ts';

export { SluiceMetadata } from '../../src/runtime/cloudflare.ts';

interface Env {
  BUCKET: R2Bucket;
  SLUICE: MetadataNamespace;
  SVC_CREDENTIALS: string;
  SLUICE_MASTER_KEY: string;
}
interface Execution {
  waitUntil(work: Promise<unknown>): void;
}

let storage: Promise<OpenGateway> | undefined;
export default {
  async fetch(request: Request, env: Env, execution: Execution): Promise<Response> {
    storage ??= openGateway({
      credentials: JSON.parse(env.SVC_CREDENTIALS),
      storage: cloudflare({ objects: env.BUCKET, metadata: env.SLUICE, masterKey: env.SLUICE_MASTER_KEY }),
    });
    const reply = storage.then((gateway) => workerHandler(gateway)(request));
    execution.waitUntil(reply.catch(() => {}));
    return reply;
  },
};
