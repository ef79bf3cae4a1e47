/**
 * Structured logs: JSON lines through @logtape/logtape, which is imported here alone. An
 * embedding application that uses it too gets our records under the category `sluice`.
 */
import { configureSync, getLogger, type LogRecord } from '@logtape/logtape';
import { sharedBudget } from '../base/shared-budget.ts';
import type { Fields, LogLevel } from '../ports/telemetry.ts';
import { formatLine, type Log, type LogOutput, redact } from './log-line.ts';

export type { Log };

const category = 'sluice';
const taken = { DEBUG: 'debug', INFO: 'info', WARN: 'warning', ERROR: 'error' } as const;
const visible = {
  trace: 'DEBUG',
  debug: 'DEBUG',
  info: 'INFO',
  warning: 'WARN',
  error: 'ERROR',
  fatal: 'ERROR',
} as const;

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

const formatRecord = (record: LogRecord): string =>
  formatLine({
    time: record.timestamp,
    level: visible[record.level],
    message: record.message.join(''),
    fields: record.properties,
  });

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

// Lines that repeat: failures of workers and backends while an engine is away, and refused requests of one caller. The first is
// logged at once, further ones within a minute are counted and told in one line at its end. Lines of a request (`request_id`) are
// folded only where their writer names their kind.

const windowMs = 60_000;
/**
 * Different kinds that are remembered at once: of failures, and of lines whose writer names the kind. Beyond that failures are logged as
 * they come, and further lines of an account count as one kind.
 */
const kindsMax = 1_000;
const causesMax = 5;

/** Fields in which repeats of one failure differ. */
const different = new Set(['worker', 'lease', 'cause', 'error']);

interface Repeats {
  count: number;
  last: Fields;
}

/** @param later calls back after so many ms; it need not keep the process alive */
export function foldRepeats(log: Log, later: (ms: number, act: () => void) => void): Log {
  const repeats = new Map<string, Repeats>();
  let failures = 0;
  // What many kinds are about is chosen by tenants. An account that makes up thousands takes the places of no others.
  const named = sharedBudget(kindsMax);
  return (level, message, reported = {}, about, account = '') => {
    const isNamed = about !== undefined;
    // The last lines that a process keeps are shared by account.
    const fields = account === '' || 'account' in reported ? reported : { ...reported, account };
    if (!isNamed && !isFolded(level, fields)) return log(level, message, fields);
    const own = isNamed ? JSON.stringify([level, message, account, about]) : foldKey(level, message, fields);
    const isCrowded = isNamed && !repeats.has(own) && !named.hasSpace(1, account);
    const kind = isCrowded ? JSON.stringify([level, message, account]) : own;
    const known = repeats.get(kind);
    if (known !== undefined) {
      known.count += 1;
      known.last = fields;
      return;
    }
    log(level, message, fields);
    if (!isNamed && failures >= kindsMax) return;
    const started: Repeats = { count: 0, last: fields };
    repeats.set(kind, started);
    if (isNamed) named.add(1, account);
    else failures += 1;
    later(windowMs, () => {
      repeats.delete(kind);
      if (isNamed) named.give(1, account);
      else failures -= 1;
      if (started.count === 0) return;
      log(level, message, { ...withoutStacks(started.last), repeated: started.count, withinMs: windowMs });
    });
  };
}

const isFolded = (level: LogLevel, fields: Fields): boolean =>
  (level === 'WARN' || level === 'ERROR') && !('request_id' in fields);

function foldKey(level: string, message: string, fields: Fields): string {
  const texts = Object.entries(fields).filter(
    ([name, value]) => typeof value === 'string' && !different.has(name),
  );
  return JSON.stringify([level, message, texts, causeText(fields['cause'] ?? fields['error'])]);
}

/** The messages of an error and its causes. Numbers differ from one failure to the next: ports, times, ids. */
const causeText = (cause: unknown): string => joinMessages(cause).replace(/\d+/g, '#');

function joinMessages(cause: unknown): string {
  const messages: string[] = [];
  for (let each = cause, i = 0; each !== undefined && i < causesMax; i += 1) {
    messages.push(each instanceof Error ? each.message : String(each));
    each = each instanceof Error ? each.cause : undefined;
  }
  return messages.join(': ');
}

/** The first line showed where the failure came from. */
const withoutStacks = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? joinMessages(value) : value,
    ]),
  );
