/** An S3 in a Fastify application, below `/s3`: `node examples/fastify.ts`. The hook comes before Fastify reads a body. */
import fastify from 'fastify';
import { directory, openGateway } from '../src/mod.ts';
import { toNodeHandler } from '../src/runtime/node.ts';

const secretKey = process.env['SECRET'] ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
});
const handle = toNodeHandler(storage);

const app = fastify();
app.addHook('onRequest', (request, reply, next) => {
  if (!/^\/s3(?:[/?]|$)/.test(request.url)) return next();
  reply.hijack();
  handle(request.raw, reply.raw);
});
app.get('/', () => 'the application’s own page');
await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' });
