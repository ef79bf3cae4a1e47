/** An S3 in an Express application, below `/s3`: `node examples/express.ts`. Mount it before parsers of bodies. */
import express from 'express';
import { directory, openGateway } from '../src/mod.ts';
import { toNodeHandler } from '../src/runtime/node.ts';

const secretKey = process.env['SECRET'] ?? 'a-long-secret';
const storage = await openGateway({
  credentials: [{ accessKey: 'app', secretKey, owner: 'me', root: true }],
  storage: directory(process.env['DATA'] ?? './data'),
  basePath: '/s3',
});

const app = express();
app.use('/s3', toNodeHandler(storage));
app.use(express.json());
app.get('/', (_, response) => void response.send('the application’s own page'));
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
