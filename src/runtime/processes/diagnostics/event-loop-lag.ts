/**
 * The longest delay of the event loop since it was last read. A timer of our own measures it, because `monitorEventLoopDelay` wakes the
 * process as often, that of Bun leaves the resolution out of its delays, and that of Deno does not see a blocked loop.
 *
 * The timer is a fine one while the process works. On Node it becomes a coarse one when the process is idle, because 50 wake-ups a second
 * would be most of what an idle process costs. It then fires with the checks of idle workers (`workers/supervision/pulses.ts`), so it wakes the
 * process no more often. The first request makes it a fine one again.
 */
import { subscribe } from 'node:diagnostics_channel';
import { performance } from 'node:perf_hooks';

const fineMs = 20;
/** It fires at multiples of this. A block that lasts longer is never missed. */
const coarseMs = 1_000;
/** Nearer to an instant than a timer may be early. */
const earlyMs = 2;
/** The process is idle when it was so for this long. */
const idleMs = 1_000;
/** The share of that time in which the event loop may have been active: the checks of idle workers stay below it on a busy machine too. */
const idleShare = 0.2;

export interface EventLoopLag {
  /** In seconds. */
  read(): number;
}

/** Bun and Deno neither measure the utilization of the loop nor publish requests. */
const hasUtilization = process.versions['bun'] === undefined && process.versions['deno'] === undefined;

export function measureEventLoopLag(): EventLoopLag {
  let longestMs = 0;
  let everyMs = fineMs;
  let due = performance.now() + everyMs;
  let utilization = performance.eventLoopUtilization();
  let comparedAt = performance.now();
  const note = (now: number): void => {
    longestMs = Math.max(longestMs, now - due);
  };
  /** Whether the event loop has been idle since it was last compared. */
  const wasIdle = (now: number): boolean => {
    const latest = performance.eventLoopUtilization();
    const { utilization: share } = performance.eventLoopUtilization(latest, utilization);
    utilization = latest;
    comparedAt = now;
    return share < idleShare;
  };
  const tick = (): void => {
    const now = performance.now();
    note(now);
    if (hasUtilization && (everyMs === coarseMs || now - comparedAt >= idleMs))
      everyMs = wasIdle(now) ? coarseMs : fineMs;
    start(now);
  };
  const start = (now: number): void => {
    const ms = everyMs === fineMs ? fineMs : untilInstant(now);
    due = now + ms;
    timer = setTimeout(tick, ms);
    timer.unref?.();
  };
  let timer: ReturnType<typeof setTimeout>;
  start(performance.now());
  /** A request begins: what it does may block the event loop. */
  const rouse = (): void => {
    if (everyMs === fineMs) return;
    clearTimeout(timer);
    everyMs = fineMs;
    const now = performance.now();
    note(now);
    wasIdle(now);
    start(now);
  };
  if (hasUtilization) subscribe('http.server.request.start', rouse);
  return {
    read() {
      // The timer may be late already, and run only after this.
      note(performance.now());
      const seconds = longestMs / 1000;
      longestMs = 0;
      return seconds;
    },
  };
}

function untilInstant(now: number): number {
  const untilNext = coarseMs - (now % coarseMs);
  return Math.ceil(untilNext < earlyMs ? untilNext + coarseMs : untilNext);
}
