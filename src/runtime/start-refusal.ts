/** The reason why a start cannot go on, in one line for the operator, because a stack would not help. */
import { type ListenAddress, showListen } from '../config/network.ts';
import type { Config } from '../config.ts';
import { MetadataDamaged, StoreRefused, StoreUnavailable } from '../ports/metadata-store.ts';

export class StartRefusal extends Error {
  /** 2 for what is configured or kept wrongly, 1 for what the system refuses. */
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

interface ListenError extends NodeJS.ErrnoException {
  readonly listener: 'storage' | 'admin' | undefined;
}

const isListenError = (error: unknown): error is ListenError => error instanceof Error && 'listener' in error;

/** Names the setting of an address that is in use, or of a store that cannot be opened; other errors are returned unchanged. */
export function asRefusal(
  error: unknown,
  config: Pick<Config, 'SVC_LISTEN' | 'SVC_ADMIN_LISTEN' | 'SVC_META_BACKEND'>,
): unknown {
  const refused = (exitCode: 1 | 2): StartRefusal =>
    new StartRefusal(`SVC_META_BACKEND=${config.SVC_META_BACKEND}: ${(error as Error).message}`, exitCode, {
      cause: error,
    });
  if (error instanceof StoreRefused) return refused(2);
  if (error instanceof StoreUnavailable) return refused(1);
  if (error instanceof MetadataDamaged)
    return new StartRefusal(
      `${error.message}, and nothing starts without it; "Leaving damaged rows out" in docs/recovery.md says what to do`,
      2,
      { cause: error },
    );
  if (!isListenError(error)) return error;
  const isAdmin = error.listener === 'admin';
  const address: ListenAddress | undefined = isAdmin ? config.SVC_ADMIN_LISTEN : config.SVC_LISTEN;
  if (address === undefined) return error;
  const name = isAdmin ? 'SVC_ADMIN_LISTEN' : 'SVC_LISTEN';
  const why =
    error.code === 'EADDRINUSE' ? 'is in use by another process' : `cannot be listened on: ${error.code}`;
  const choose = `choose another with ${isAdmin ? '--admin-listen' : '--listen'}`;
  return new StartRefusal(`${name}=${showListen(address)} ${why}; ${choose}`, 1, { cause: error });
}
