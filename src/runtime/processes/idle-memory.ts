/**
 * Keeps the heap of a serving process small, and returns memory to the system when the process becomes idle after many requests: V8 keeps
 * the free pages of its heap until it gets a low-memory notification.
 */
import { setFlagsFromString } from 'node:v8';
import type { Telemetry } from '../../ports/telemetry.ts';
import { processMemory } from './memory-faults.ts';

/** What a process can say of itself and do; tests have their own. */
export interface ProcessMemory {
  /** Microseconds of CPU since the start. */
  cpuMicros(): number;
  /** The resident heap, buffers and native allocations; not pages of mapped files, which a release does not give back. */
  anonymousBytes(): number;
  /** Collects everything and gives free pages back. Stops the process for some 100 ms. */
  release(): Promise<void>;
}

const lookMs = 10_000;
/** A process that uses less of a processor than this is idle: probes of its health and scrapes of its metrics cost less. */
const idleShare = 0.05;
/** Idle for so many looks in a row. */
const idleLooks = 3;
/** Less than this is not worth the stop. */
const growthBytesMin = 64 * 2 ** 20;

export interface IdleMemory {
  /** A request was answered. Looks begin with it, and end when the process is idle, which then needs no timer. */
  answered(): void;
}

export function openIdleMemory(
  { log }: Pick<Telemetry, 'log'>,
  memory: ProcessMemory | undefined = nodeMemory(),
): IdleMemory {
  if (memory === undefined) return { answered() {} };
  let timer: NodeJS.Timeout | undefined;
  let restingBytes = memory.anonymousBytes();
  let cpuBefore = 0;
  let idle = 0;

  async function release({ anonymousBytes, release }: ProcessMemory): Promise<void> {
    const before = anonymousBytes();
    // It may have shrunk by itself, as where buffers were freed that were in use at the last release.
    restingBytes = Math.min(restingBytes, before);
    if (before - restingBytes < growthBytesMin) return;
    const startedAt = performance.now();
    await release();
    restingBytes = anonymousBytes();
    log('INFO', 'the process is idle, and has given memory back', {
      pid: process.pid,
      before_bytes: before,
      after_bytes: restingBytes,
      ms: Math.round(performance.now() - startedAt),
    });
  }
  function look(from: ProcessMemory): void {
    const cpu = from.cpuMicros();
    idle = cpu - cpuBefore < lookMs * 1000 * idleShare ? idle + 1 : 0;
    cpuBefore = cpu;
    if (idle < idleLooks) return;
    clearInterval(timer);
    timer = undefined;
    release(from).catch((cause: unknown) => log('WARN', 'memory was not given back', { cause }));
  }
  return {
    answered() {
      if (timer !== undefined) return;
      cpuBefore = memory.cpuMicros();
      idle = 0;
      timer = setInterval(look, lookMs, memory);
      timer.unref();
    },
  };
}

const isNode = process.versions['bun'] === undefined && process.versions['deno'] === undefined;

/**
 * Has V8 collect the whole heap once it is half as large again as what was left after the last time. On a machine with much memory V8 would
 * wait until the heap is up to four times as large (docs/benchmarks.md).
 */
export function boundHeapGrowth(): void {
  if (isNode) setFlagsFromString('--heap-growing-percent=50');
}

/** @returns undefined in Bun and Deno, whose heaps are not told */
function nodeMemory(): ProcessMemory | undefined {
  if (!isNode) return undefined;
  return {
    cpuMicros() {
      const { user, system } = process.cpuUsage();
      return user + system;
    },
    // Linux alone counts it apart.
    anonymousBytes: () => new Map(processMemory()).get('anonymous') ?? process.memoryUsage.rss(),
    async release() {
      const { Session } = await import('node:inspector/promises');
      const session = new Session();
      session.connect();
      try {
        // The public name of V8's `LowMemoryNotification`; `gc()` of `--expose-gc` keeps the pages.
        await session.post('HeapProfiler.collectGarbage');
      } finally {
        session.disconnect();
      }
    },
  };
}
