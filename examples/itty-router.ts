/** An S3 in an itty-router application, below `/s3`; the default export is what Bun, Deno and Cloudflare serve: `bun examples/itty-router.ts`. */
import { Router } from 'itty-router';
import { bunHandler, directory, openGateway } from '../src/mod.ts';

const secretKey = process.env['SECRET'] ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
});

// Not AutoRouter, which wraps the request in a proxy: the address of such a request is unknown to Bun.
const router = Router();
router.get('/', () => new Response('the application’s own page'));
// Bun passes its server, which knows the client's address, as the second argument.
router.all('/s3/*', bunHandler(storage));

// The gateway has limits of its own for bodies; Bun's default is 128 MiB.
export default { ...router, hostname: '127.0.0.1', maxRequestBodySize: Number.MAX_SAFE_INTEGER };
