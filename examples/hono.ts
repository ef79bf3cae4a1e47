/**
 * The gateway inside a Hono application, under a path and on a host of its own. Run it with any server for Hono.
 *
 * ```sh
 * aws --endpoint-url http://localhost:3000/s3 s3 mb s3://photos      # under the path
 * aws --endpoint-url http://s3.example.com s3 cp cat.jpg s3://photos  # on the host
 * ```
 */
import { Hono } from 'hono';
import { type AccessKey, honoHandler, memory, openGateway } from '../src/mod.ts';

/** @param host under which the gateway answers alone, with `<bucket>.<host>` beside it */
export async function application(credentials: readonly AccessKey[], host: string): Promise<Hono> {
  // Signatures cover the whole path, so the gateway must know what its addresses begin with.
  const gateway = await openGateway({ credentials, storage: memory(), domain: host, basePath: '/s3' });
  const onHost = honoHandler(gateway.mount(''));

  const app = new Hono();
  // First, because on this host every path is a bucket or a key. The raw request goes on: its body is a stream.
  app.use(async (c, next) => {
    const name = (c.req.header('host') ?? new URL(c.req.url).host).replace(/:\d+$/, '').toLowerCase();
    const isOurs = name === host || name.endsWith(`.${host}`);
    return isOurs ? onHost(c) : next();
  });
  app.get('/', ({ text }) => text('the application’s own page'));
  app.all('/s3', honoHandler(gateway));
  app.all('/s3/*', honoHandler(gateway));
  return app;
}
