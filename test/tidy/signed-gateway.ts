/** A gateway on `embedded` and `file` in this process, on node:http, and signed requests to it. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { directory, openGateway } from '../../src/mod.ts';
import { toNodeHandler } from '../../src/runtime/node.ts';
import { type RequestSpec, signer } from '../support/sign.ts';

const key = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-a-reader' };

export async function openSignedGateway(
  options: Omit<Parameters<typeof openGateway>[0], 'storage' | 'credentials'>,
) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tidy-'));
  const gateway = await openGateway({
    storage: directory(join(folder, 'data')),
    credentials: [{ ...key, owner: 'reader', root: true }],
    ...options,
  });
  const server = createServer(toNodeHandler(gateway)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sign = signer({ ...key, host: `127.0.0.1:${port}` });
  return {
    /** @throws unless it is answered with success */
    async send(spec: RequestSpec): Promise<void> {
      const { method, target, headers, body } = sign.request(spec);
      const sent = request({
        port,
        host: '127.0.0.1',
        method,
        path: target,
        headers: Object.fromEntries(headers),
      });
      sent.end(body);
      const [response] = await once(sent, 'response');
      for await (const _ of response);
      if (response.statusCode >= 300) throw new Error(`${method} ${target}: ${response.statusCode}`);
    },
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await gateway.close();
      await rm(folder, { recursive: true });
    },
  };
}
