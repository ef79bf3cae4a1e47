import { directory, type OpenGateway, openGateway } from 'sluice';
import { routeHandler } from 'sluice/node';

let storage: Promise<OpenGateway> | undefined;

export function openStorage(): Promise<OpenGateway> {
  storage ??= openGateway({
    credentials: [
      { accessKey: 'app', secretKey: process.env['SECRET'] ?? 'a-long-secret', owner: 'me', root: true },
    ],
    storage: directory(process.env['DATA'] ?? './data'),
    basePath: '/s3',
  });
  return storage;
}

/** A function, because `vite build` loads this module too, and needs no gateway. */
export const handleStorage = routeHandler(openStorage);
