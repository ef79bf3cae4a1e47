/** An S3 on Cloudflare Workers, in the memory of an isolate, for trials: `npx wrangler dev examples/worker.ts`. */
import { memory, type OpenGateway, openGateway, workerHandler } from '../src/runtime/cloudflare.ts';

let storage: Promise<OpenGateway> | undefined;
/** With the first request, because an isolate may not draw random numbers before it. */
const open = (secretKey: string): Promise<OpenGateway> =>
  openGateway({
    credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
    storage: memory(),
    basePath: '/s3',
  });

export default {
  async fetch(request: Request, { SECRET }: { readonly SECRET: string }): Promise<Response> {
    if (!/^\/s3(?:\/|$)/.test(new URL(request.url).pathname))
      return new Response('the application’s own page');
    storage ??= open(SECRET);
    return workerHandler(await storage)(request);
  },
};
