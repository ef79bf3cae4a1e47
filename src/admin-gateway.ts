/**
 * The gateway with its operator API and console, which a Worker may leave out: a bundler compiles all that is behind a dynamic import, so
 * `gateway.ts` does not know this file.
 */
import type { Context } from './context.ts';
import { createStorageGateway, type Gateway, type StorageGatewayOptions } from './gateway.ts';
import { answerSiblings } from './handlers/areas.ts';
import { serveConsole } from './handlers/console.ts';
import type { AdminApi } from './handlers/handler.ts';

export const adminApi: AdminApi = {
  share: answerSiblings,
  serveConsole,
  // The tables, schemas and handlers are a quarter of what a start would evaluate.
  open: async () => (await import('./handlers/admin/router.ts')).adminOperations,
};

export const createGateway = (ctx: Context, options: Omit<StorageGatewayOptions, 'adminApi'> = {}): Gateway =>
  createStorageGateway(ctx, { ...options, adminApi });
