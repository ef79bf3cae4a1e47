/** The gateway over an R2 whose calls fail while a request says so. Bundled for workerd. */
import type { Environment } from '../../src/config.ts';
import gateway, { type CloudflareBindings } from '../../src/runtime/workerd.ts';

export { SluiceMetadata } from '../../src/runtime/workerd.ts';

/** The calls that fail; a test sets them. */
let failing: readonly string[] = [];

type Bucket = CloudflareBindings['BUCKET'];
const breaking = (bucket: Bucket): Bucket =>
  new Proxy(bucket, {
    get(target, name) {
      const call = Reflect.get(target, name, target) as (...args: unknown[]) => Promise<unknown>;
      return (...args: unknown[]) =>
        failing.includes(String(name))
          ? Promise.reject(new Error('We encountered an internal error. (10001)'))
          : call.apply(target, args);
    },
  });

export default {
  fetch(request: Request, env: Environment & CloudflareBindings, execution: ExecutionLike): unknown {
    const calls = new URL(request.url).searchParams.get('break-r2');
    if (calls === null)
      return gateway.fetch(
        request,
        { ...env, BUCKET: breaking(env.BUCKET) } as object as Environment,
        execution,
      );
    failing = calls.split(',');
    return new Response();
  },
};

interface ExecutionLike {
  waitUntil(promise: Promise<unknown>): void;
}
