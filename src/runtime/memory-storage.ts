/** `memory()` in a file of its own: a bundle for a Worker has it, without the backends that `directory()` and `s3()` load. */
import type { Storage } from '../gateway-opener.ts';
import { openPortable } from '../portable-context.ts';

/** Everything in the memory of this process, on every runtime: for tests and demos. */
export const memory = (): Storage => ({
  settings: { SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'memory' },
  open: async (config, options) => openPortable(config, options),
});
