/**
 * An application on Bun or Deno that serves the gateway by its handler of `fetch`, with the log of the gateway on standard error. Unsigned
 * requests about a bucket wait as long as `authorize` does.
 */
import { bunHandler, denoHandler, memory, openGateway, silentTelemetry } from '../../src/mod.ts';
import { createLineLog } from '../../src/telemetry/log-line.ts';

declare const Bun: { serve(options: object): unknown } | undefined;
declare const Deno: { serve(options: object, handle: ReturnType<typeof denoHandler>): unknown };

const [port, silentMs] = process.argv.slice(2);
const log = createLineLog({ level: 'DEBUG', write: (line) => console.error(line) });
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey: 'secret-of-the-app', owner: 'me', root: true }],
  storage: memory(),
  telemetry: { ...silentTelemetry, log },
  async authorize(_, { key = '' }) {
    if (key === '') await new Promise((resolve) => setTimeout(resolve, Number(silentMs)));
    return { owner: 'me' };
  },
});
const options = { port: Number(port), hostname: '127.0.0.1' };
if (typeof Bun === 'undefined') Deno.serve(options, denoHandler(storage));
else Bun.serve({ ...options, fetch: bunHandler(storage) });
