/**
 * Structured logs: JSON lines through @logtape/logtape, which is imported here alone. An
 * embedding application that uses it too gets our records under the category `sluice`.
 */
import { configureSync, getLogger, type LogRecord } from '@logtape/logtape';
import type { Fields, LogLevel } from '../ports/telemetry.ts';
import { redact } from './redact.ts';

const category = 'sluice';
const taken = { DEBUG: 'debug', INFO: 'info', WARN: 'warning', ERROR: 'error' } as const;
const shown = {
  trace: 'DEBUG',
  debug: 'DEBUG',
  info: 'INFO',
  warning: 'WARN',
  error: 'ERROR',
  fatal: 'ERROR',
} as const;

export type Log = (level: LogLevel, message: string, fields?: Fields, kind?: string) => void;

/** Writes records of the configured categories and levels; other records are never built. */
export function createLog(now: () => number = Date.now): Log {
  const logger = getLogger([category]);
  return (level, message, fields = {}) => {
    if (!logger.isEnabledFor(taken[level])) return;
    logger.emit({
      level: taken[level],
      message: [message],
      rawMessage: message,
      timestamp: now(),
      properties: redact(fields),
    });
  };
}

/** `time`, `level` and `message`, then the fields; a field of one of these names gets a `_`. */
function formatRecord(record: LogRecord): string {
  const line: Record<string, unknown> = {
    time: new Date(record.timestamp).toISOString(),
    level: shown[record.level],
    message: record.message.join(''),
  };
  for (const [name, value] of Object.entries(record.properties))
    line[name in line ? `${name}_` : name] = value;
  return JSON.stringify(line);
}

export interface LogOutput {
  readonly level: LogLevel;
  /** Takes one line without its end. */
  readonly write: (line: string) => void;
}

/** Sends the records of this process somewhere, in place of where they went before. For those who own the process. */
export function configureLog({ level, write }: LogOutput): void {
  configureSync({
    reset: true,
    sinks: { lines: (record) => write(formatRecord(record)) },
    loggers: [
      { category: [category], sinks: ['lines'], lowestLevel: taken[level] },
      { category: ['logtape', 'meta'], sinks: ['lines'], lowestLevel: 'error' },
    ],
  });
}
