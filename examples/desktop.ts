/** An S3 inside one process, as in a desktop application: files of the user behind links of its own window. `node examples/desktop.ts` */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { directory, openGateway } from '../src/mod.ts';
import { toNodeHandler } from '../src/runtime/node.ts';

const secretKey = process.env['SECRET'] ?? crypto.randomUUID();
await using storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
});
const server = createServer(toNodeHandler(storage)).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const link = (method: 'GET' | 'PUT', key = '') =>
  storage.presign({ method, origin, bucket: 'documents', key, expiresSeconds: 60 });
await fetch(link('PUT'), { method: 'PUT' });
await fetch(link('PUT', 'note.txt'), { method: 'PUT', body: 'kept on this machine' });
console.log(await (await fetch(link('GET', 'note.txt'))).text());
server.close().closeAllConnections();
