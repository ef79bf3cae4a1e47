/** What a process of Node tells operators about itself. */

import { X509Certificate } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { performance } from 'node:perf_hooks';
import { RecentLines } from '../../base/recent-entries.ts';
import { type Config, settingNames } from '../../config.ts';
import type { Diagnostics } from '../../ports/diagnostics.ts';
import { packageVersion } from '../cli/version.ts';
import { processMemory } from './memory-faults.ts';

/** Of the log of this process. */
export const recentLines = new RecentLines();

/** The name under which operators find this process. */
export const processName = (): string => `${hostname()}:${process.pid}`;

export const nodeDiagnostics = (): Diagnostics => ({
  version: packageVersion(),
  name: processName(),
  process: () => ({
    host: hostname(),
    pid: process.pid,
    uptimeSeconds: Math.round(process.uptime()),
    versions: process.versions,
    platform: process.platform,
    architecture: process.arch,
    cores: availableParallelism(),
    machineBytes: totalmem(),
    memory: Object.fromEntries(processMemory()),
    cpuMicroseconds: process.cpuUsage(),
  }),
  lines: recentLines,
});

// The longest delay of the event loop since it was last read. A timer of our own measures it, because `monitorEventLoopDelay` wakes the
// process as often, that of Bun leaves the resolution out of its delays, and that of Deno does not see a blocked loop.
//
// The timer is a fine one while the process works. On Node it becomes a coarse one when the process is idle, because 50 wake-ups a second
// would be most of what an idle process costs. It then fires with the checks of idle workers (`workers/idle-rest.ts`), so it wakes the
// process no more often. The first request makes it a fine one again.

const fineMs = 20;
/** It fires at multiples of this. A block that lasts longer is never missed. */
const coarseMs = 1_000;
/** Nearer to an instant than a timer may be early. */
const earlyMs = 2;
/** The process is idle when it was so for this long. */
const idleMs = 1_000;
/** The share of that time in which the event loop may have been active: the checks of idle workers stay below it on a busy machine too. */
const idleShare = 0.2;

interface EventLoopLag {
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

// When the certificates expire that the settings name.

interface CertificateExpiry {
  readonly setting: string;
  /** Of the certificate in the file that expires first (ms). */
  readonly notAfter: number;
}

const freshMs = 60_000;
const certificateSettings = settingNames.filter((name) => /_(?:CERT|CA)_FILE$/.test(name));
const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Reads the files at most once a minute. A file that cannot be read has no expiry; the listener or client that uses it reports that. */
export function certificateExpiries(config: Config): () => readonly CertificateExpiry[] {
  let last: { readonly at: number; readonly found: readonly CertificateExpiry[] } | undefined;
  return () => {
    const now = performance.now();
    if (last === undefined || now - last.at >= freshMs)
      last = { at: now, found: certificateSettings.flatMap((setting) => read(setting, config[setting])) };
    return last.found;
  };
}

function read(setting: string, path: unknown): readonly CertificateExpiry[] {
  if (typeof path !== 'string') return [];
  try {
    const times = (readFileSync(path, 'latin1').match(pem) ?? []).map((text) =>
      Date.parse(new X509Certificate(text).validTo),
    );
    return times.length === 0 ? [] : [{ setting, notAfter: Math.min(...times) }];
  } catch {
    return [];
  }
}
