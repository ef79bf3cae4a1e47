/** What a process of Node tells about itself in a support bundle. */
import { availableParallelism, hostname, totalmem } from 'node:os';
import type { Diagnostics } from '../../../ports/diagnostics.ts';
import { packageVersion } from '../../cli/version.ts';
import { processMemory } from '../process-memory.ts';

const linesMax = 200;
const lineCharactersMax = 4_096;

/** The last warnings and errors of the log. */
export class LastErrors {
  readonly #lines: string[] = [];

  /** @param line of the log, in which secrets are masked already */
  note(line: string): void {
    if (!/"level":"(?:WARN|ERROR)"/.test(line)) return;
    if (this.#lines.length === linesMax) this.#lines.shift();
    this.#lines.push(line.slice(0, lineCharactersMax));
  }

  read(): readonly string[] {
    return [...this.#lines];
  }
}

export const lastErrors = new LastErrors();

export const nodeDiagnostics = (): Diagnostics => ({
  version: packageVersion(),
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
  lastErrors: () => lastErrors.read(),
});
