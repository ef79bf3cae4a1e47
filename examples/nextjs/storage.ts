import { directory, type OpenGateway, openGateway } from 'sluice';
import { routeHandler } from 'sluice/node';

// Next.js loads this module for each of its parts; all share one gateway.
const shared = globalThis as { storage?: Promise<OpenGateway> };

export function openStorage(): Promise<OpenGateway> {
  shared.storage ??= openGateway({
    credentials: [
      { accessKey: 'app', secretKey: process.env['SECRET'] ?? 'a-long-secret', owner: 'me', root: true },
    ],
    storage: directory(process.env['DATA'] ?? './data'),
    basePath: '/s3',
  });
  return shared.storage;
}

/** A function, because `next build` loads this module too, and needs no gateway. */
export const handle = routeHandler(openStorage);
