/** The memory that an isolate of workerd uses, as its inspector reports it: JavaScript's heap, and the buffers outside of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Miniflare } from 'miniflare';

/** The inspector answers only while the isolate is idle: the isolate has to wait for its client or for R2 now and then. */
const sampleMs = 10;

interface HeapUsage {
  readonly usedSize: number;
  readonly embedderHeapUsedSize: number;
  readonly backingStorageSize: number;
}

export interface Peak {
  readonly bytes: number;
  readonly samples: number;
}

export interface IsolateMemory extends Disposable {
  /** The highest sum of heap and buffers while the function runs. Each sample follows a collection: garbage is no need of memory. */
  peakDuring(act: () => Promise<void>): Promise<Peak>;
}

/** @param name of the Worker, which needs `inspectorPort` */
export async function openIsolateMemory(worker: Miniflare, name: string): Promise<IsolateMemory> {
  const socket = new WebSocket(new URL(`/core:user:${name}`, await worker.getInspectorURL()));
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error(`the inspector of ${name} does not answer`));
  });
  const pending = new Map<number, (usage: HeapUsage) => void>();
  socket.onmessage = ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { readonly id: number; readonly result: HeapUsage };
    pending.get(id)?.(result);
    pending.delete(id);
  };
  let asked = 0;
  const call = (method: string): Promise<HeapUsage> =>
    new Promise((resolve) => {
      asked += 1;
      pending.set(asked, resolve);
      socket.send(JSON.stringify({ id: asked, method }));
    });
  return {
    async peakDuring(act) {
      let [bytes, samples, isOver] = [0, 0, false];
      const sampling = (async () => {
        while (!isOver) {
          await call('HeapProfiler.collectGarbage');
          const { usedSize, embedderHeapUsedSize, backingStorageSize } = await call('Runtime.getHeapUsage');
          bytes = Math.max(bytes, usedSize + embedderHeapUsedSize + backingStorageSize);
          samples += 1;
          await sleep(sampleMs);
        }
      })();
      try {
        await act();
      } finally {
        isOver = true;
        await sampling;
      }
      return { bytes, samples };
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
