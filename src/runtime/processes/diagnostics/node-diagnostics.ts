/** What a process of Node tells operators about itself. */
import { availableParallelism, hostname, totalmem } from 'node:os';
import { RecentLines } from '../../../base/recent-lines.ts';
import type { Diagnostics } from '../../../ports/diagnostics.ts';
import { packageVersion } from '../../cli/version.ts';
import { processMemory } from '../process-memory.ts';

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
