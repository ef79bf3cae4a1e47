/** A page whose form uploads one file straight into a bucket: `node examples/upload.ts`. */
import { createServer } from 'node:http';
import { directory, openGateway } from '../src/mod.ts';
import { toNodeHandler } from '../src/runtime/node.ts';

const port = Number(process.env['PORT'] ?? 3000);
const at = { origin: `http://127.0.0.1:${port}`, bucket: 'uploads', expiresSeconds: 600 };
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey: process.env['SECRET'] ?? 'a-long-secret', owner: 'me' }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
  onEvent: ({ key, size }) => console.log(`stored ${key}, ${size} bytes`),
});
const handle = toNodeHandler(storage);
await storage.fetch(new Request(storage.presign({ ...at, method: 'PUT', key: '' }), { method: 'PUT' }));
function page(): string {
  const key = `${crypto.randomUUID()}/\${filename}`;
  const fields = { success_action_redirect: `${at.origin}/thanks` };
  const form = storage.presignPost({ ...at, key, bytes: { max: 10_000_000 }, fields });
  const inputs = Object.entries(form.fields).map(
    ([n, v]) => `<input type="hidden" name="${n}" value="${v}">`,
  );
  return `<form method="post" enctype="multipart/form-data" action="${form.url}">
    ${inputs.join('')}<input type="file" name="file"><button>Upload</button></form>`;
}
createServer((request, response) => {
  if (request.url?.startsWith('/s3/')) return handle(request, response);
  response.setHeader('content-type', 'text/html');
  response.end(`<!doctype html>${request.url === '/' ? page() : '<p>Thank you.</p>'}`);
}).listen(port, '127.0.0.1');
