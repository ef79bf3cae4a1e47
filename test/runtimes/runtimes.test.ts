/** Every supported runtime, one row each. */
import { startServer } from '../support/server.ts';
import { install, runtimes } from './installed.ts';
import { smoke } from './smoke.ts';
import { startWorkerd } from './workerd.ts';

install();

for (const [name, runtime] of Object.entries(runtimes)) {
  for (const [backends, dataDir] of [
    ['embedded and file', undefined],
    ['memory', 'memory'],
  ] as const) {
    smoke({
      name: `${name}, ${backends}`,
      start: async () => {
        const server = await startServer({ runtime, ...(dataDir === undefined ? {} : { dataDir }) });
        return { ...server.credentials.root, url: server.url, stop: server.stop };
      },
    });
  }
}

smoke({
  name: 'workerd, memory',
  start: startWorkerd,
  normalisesTargets: 'the runtime rewrites request.url',
});
