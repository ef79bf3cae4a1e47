/** An S3 beside an application's own pages on Deno: `deno run -A examples/deno.ts`. */
import { denoHandler, directory, openGateway } from '../src/mod.ts';

declare const Deno: {
  readonly env: { get(name: string): string | undefined };
  serve(
    options: object,
    handle: (request: Request, info: { readonly remoteAddr: object }) => unknown,
  ): unknown;
};

const secretKey = Deno.env.get('SECRET') ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(Deno.env.get('DATA') ?? './data'),
  basePath: '/s3',
});
const handle = denoHandler(storage);

Deno.serve({ port: Number(Deno.env.get('PORT') ?? 3000), hostname: '127.0.0.1' }, (request, info) =>
  /^[^/]+\/\/[^/]+\/s3(?:[/?]|$)/.test(request.url)
    ? handle(request, info)
    : new Response('the application’s own page'),
);
