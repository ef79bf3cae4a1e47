/** An S3 beside an application's own pages on Bun: `bun examples/bun.ts`. */
import { bunHandler, directory, openGateway } from '../src/mod.ts';

declare const Bun: { serve(options: object): unknown };

const secretKey = process.env['SECRET'] ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
});

Bun.serve({
  port: Number(process.env['PORT'] ?? 3000),
  hostname: '127.0.0.1',
  // The gateway has limits of its own; Bun's default is 128 MiB.
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  routes: {
    '/': () => new Response('the application’s own page'),
    '/s3': bunHandler(storage),
    '/s3/*': bunHandler(storage),
  },
});
