/** An S3 in a Koa application, below `/s3`: `node examples/koa.ts`. Mount it before parsers of bodies. */
import Koa from 'koa';
import { directory, openGateway } from '../src/mod.ts';
import { toNodeHandler } from '../src/runtime/node.ts';

const secretKey = process.env['SECRET'] ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
});
const handle = toNodeHandler(storage);

const app = new Koa();
app.use(async (context, next) => {
  if (!/^\/s3(?:[/?]|$)/.test(context.url)) return next();
  context.respond = false;
  handle(context.req, context.res);
});
app.use((context) => {
  context.body = 'the application’s own page';
});
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
