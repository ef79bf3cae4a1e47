/** A child process over a store of this machine: it runs the requests of its parent and sends back the store's answers. */
import { type MachineEngine, openMachineStore } from '../support/machine-stores.ts';
import { head, headsOf, talliesOf } from './metadata-store/tables.ts';

const [engine = 'embedded', directory = '', name = '', intentTtlMs = '60000'] = process.argv.slice(2);

const store = openMachineStore(engine as MachineEngine, {
  directory,
  durable: true,
  intentTtlMs: Number(intentTtlMs),
});

const put = (bucket: string, key: string, opId?: string) =>
  store.commit(headsOf(bucket), [{ put: head(bucket, key, { etag: name }), expect: 'absent' }], {
    ...(opId === undefined ? {} : { op: { id: opId } }),
    then: [{ at: talliesOf(bucket), add: { className: 'c' }, by: { objects: 1 } }],
  });

/** Puts keys without end, several concurrently, and sends each key to the parent when its commit is acknowledged. */
async function load(bucket: string): Promise<never> {
  let next = 0;
  const writer = async (): Promise<never> => {
    for (;;) {
      const key = `${name}-${next++}`;
      const op = await store.begin({ cluster: 'c' });
      const outcome = await put(bucket, key, op.id);
      if (outcome.applied) process.send?.({ acknowledged: key });
    }
  };
  return Promise.race(Array.from({ length: 8 }, writer));
}

export const actions = {
  put,
  load,
  begin: async () => (await store.begin({ cluster: 'c' })).id,
  get: async (bucket: string, key: string) => (await store.get(headsOf(bucket), { key, slot: '~' }))?.row,
  abandoned: async () => store.abandoned(),
  raise: (bucket: string, generation: number) => store.raiseFence(headsOf(bucket), generation),
  /** Tries to be the first to put each of `count` keys; returns those that it won. */
  async race(bucket: string, count: number) {
    const keys = Array.from({ length: count }, (_, index) => `k${index}`);
    const outcomes = await Promise.all(keys.map((key) => put(bucket, key)));
    return keys.filter((_, index) => outcomes[index]?.applied);
  },
  /** Puts large rows one after the other and sends each acknowledged one to the parent. */
  async fill(bucket: string, count: number) {
    for (let index = 0; index < count; index++) {
      const row = head(bucket, `fill-${index}`, { manifest: new Uint8Array(8000) });
      await store.commit(headsOf(bucket), [{ put: row, expect: 'absent' }]);
      process.send?.({ acknowledged: row.key });
    }
  },
  async increment(bucket: string, key: string, times: number) {
    for (let turn = 0; turn < times; turn++) {
      await store.update(headsOf(bucket), { key, slot: '~' }, (row) => ({
        ...head(bucket, key),
        size: (row?.size ?? 0) + 1,
      }));
    }
  },
  close: () => store.close(),
};

export interface Call {
  readonly id: number;
  readonly action: keyof typeof actions;
  readonly args: readonly unknown[];
}

// A file that may not grow is an error to handle, as a full disk is.
process.on('SIGXFSZ', () => {});
process.on('message', async (call: Call) => {
  const action = actions[call.action] as (...args: readonly unknown[]) => Promise<unknown>;
  try {
    process.send?.({ id: call.id, result: await action(...call.args) });
  } catch (error) {
    const { message, cause } = error as Error;
    process.send?.({ id: call.id, error: `${message}: ${cause}` });
  }
});
process.on('disconnect', () => process.exit());
process.send?.({ ready: true });
