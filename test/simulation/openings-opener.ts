/** A process of `openings-long.ts`: it repeatedly opens the metadata file of a running gateway, reads, commits and closes it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { all, head, headsOf } from '../contract/metadata-store/tables.ts';
import { seeded } from '../support/load-model.ts';

const [directory = '', seed = '1', openings = '1'] = process.argv.slice(2);
const random = seeded(Number(seed));
const bucket = `opener-${seed}`;
const keyCount = 30;
/** The size of a row that needs overflow pages. */
const largeBytes = 9_000;

/** The messages that the parent counts. */
export type Told =
  | { readonly kind: 'opened' }
  | { readonly kind: 'refused' | 'failed'; readonly error: string };

const tell = (told: Told): void => void process.send?.(told);
const describe = (cause: unknown): string => {
  const { message, code } = cause as { readonly message?: string; readonly code?: unknown };
  return `${message} (${String(code)}) ${String((cause as { readonly cause?: unknown }).cause ?? '')}`;
};

async function openOnce(): Promise<void> {
  const store = embeddedStore({
    directory,
    clock: systemClock,
    random: systemRandom(),
    durable: random() < 0.5,
    onRefused: (cause) => tell({ kind: 'refused', error: describe(cause) }),
  });
  tell({ kind: 'opened' });
  try {
    const rounds = Math.floor(random() * 6);
    for (let round = 0; round < rounds; round += 1) {
      const key = `key-${Math.floor(random() * keyCount)}`;
      const found = await store.get(headsOf(bucket), { key, slot: '~' });
      const manifest = new Uint8Array(random() < 0.3 ? largeBytes : 100);
      const change =
        found === undefined
          ? ({ put: head(bucket, key, { manifest }), expect: 'absent' } as const)
          : ({ remove: { key, slot: '~' }, expect: found.revision } as const);
      await store.commit(headsOf(bucket), [change]);
      if (random() < 0.2) await all(store.scan(headsOf(bucket)));
    }
  } finally {
    await store.close();
  }
}

process.on('disconnect', () => process.exit());
for (let opening = 0; opening < Number(openings); opening += 1) {
  await openOnce().catch((cause: unknown) => tell({ kind: 'failed', error: describe(cause) }));
  await sleep(random() * 20);
}
process.disconnect?.();
