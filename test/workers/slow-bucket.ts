/**
 * The gateway over an R2 that takes its time, so that as many bytes as may be wait in the isolate, and its inspector answers meanwhile.
 * Bundled for workerd.
 */
import type { Environment } from '../../src/config.ts';
import gateway, { type CloudflareBindings } from '../../src/runtime/workerd.ts';

export { SluiceMetadata } from '../../src/runtime/workerd.ts';

const callMs = 200;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

type Bucket = CloudflareBindings['BUCKET'];
const slow = (bucket: Bucket): Bucket => ({
  async put(...request) {
    await sleep(callMs);
    return bucket.put(...request);
  },
  async get(...request) {
    await sleep(callMs);
    return bucket.get(...request);
  },
  head: (key) => bucket.head(key),
  delete: (keys) => bucket.delete(keys),
  list: (options) => bucket.list(options),
});

export default {
  fetch(request: Request, env: Environment & CloudflareBindings, execution: ExecutionLike): unknown {
    const bindings = { ...env, BUCKET: slow(env.BUCKET) } as object as Environment;
    return gateway.fetch(request, bindings, execution);
  },
};

interface ExecutionLike {
  waitUntil(promise: Promise<unknown>): void;
}
