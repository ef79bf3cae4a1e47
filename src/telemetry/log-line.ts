/** A line of the log as JSON, and a log of such lines for runtimes where a bundle is small: it does without @logtape/logtape. */
import { maskParameters } from '../base/text/mask-secrets.ts';
import type { Fields, LogLevel } from '../ports/telemetry.ts';

export type Log = (
  level: LogLevel,
  message: string,
  fields?: Fields,
  kind?: string,
  account?: string,
) => void;

export interface LogOutput {
  readonly level: LogLevel;
  /** Takes one line without its end. */
  readonly write: (line: string) => void;
}

interface Line {
  readonly time: number;
  readonly level: LogLevel;
  readonly message: string;
  /** Redacted. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** `time`, `level` and `message`, then the fields; a field of one of these names gets a `_`. */
export function formatLine({ time, level, message, fields }: Line): string {
  const line: Record<string, unknown> = { time: new Date(time).toISOString(), level, message };
  for (const [name, value] of Object.entries(fields)) line[name in line ? `${name}_` : name] = value;
  return JSON.stringify(line);
}

const severity: Readonly<Record<LogLevel, number>> = { DEBUG: 0, INFO: 1, WARN: 2, ERROR: 3 };

/** Lines of at least a level. */
export function createLineLog({ level: least, write }: LogOutput): Log {
  return (level, message, fields = {}) => {
    if (severity[level] < severity[least]) return;
    write(formatLine({ time: Date.now(), level, message, fields: redact(fields) }));
  };
}

const secretName =
  /secret|password|passwd|authorization|signature|cookie|private.?key|master.?key|customer.?key|(?:^|[-_.])(?:token|dek)$|security-token|[a-z](?:Token)$/i;
/** Names that look secret and are not: pages of a listing are no credential. */
const openName = /^(?:next_?)?(?:continuation|marker|page)_?token$/i;

const redacted = '[redacted]';
const limits = { depth: 5, items: 100, text: 8192 } as const;

/** `requestId` is logged as `request_id`, so that one name serves replies, logs and rows. */
const snakeCase = (name: string): string => name.replace(/[a-z0-9](?=[A-Z])/g, '$&_').toLowerCase();

/** Makes fields fit for a log: secrets gone, sizes bounded, every value writable as JSON. */
export function redact(fields: Fields): Record<string, unknown> {
  const clean: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) clean[snakeCase(name)] = cleanField(name, value, 1);
  }
  return clean;
}

function cleanField(name: string, value: unknown, depth: number): unknown {
  return secretName.test(name) && !openName.test(name) ? redacted : cleanValue(value, depth);
}

function cleanText(text: string): string {
  const cut = text.length > limits.text ? `${text.slice(0, limits.text)}… (${text.length} characters)` : text;
  return maskParameters(cut, redacted);
}

function cleanValue(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return cleanText(value);
    case 'bigint':
      return value.toString();
    case 'function':
    case 'symbol':
      return String(value).slice(0, 80);
    case 'object':
      return value === null ? null : cleanObject(value, depth);
    case 'number':
    case 'boolean':
    case 'undefined':
      return value;
  }
}

function cleanObject(value: object, depth: number): unknown {
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (depth > limits.depth) return '…';
  if (value instanceof Error) return cleanError(value, depth);
  if (Array.isArray(value)) return value.slice(0, limits.items).map((item) => cleanValue(item, depth + 1));
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(
    entries
      .slice(0, limits.items)
      .map(([name, inner]) => [String(name), cleanField(String(name), inner, depth + 1)]),
  );
}

/** The chain of causes is what an operator reads. */
function cleanError(error: Error, depth: number): object {
  const { code } = error as { readonly code?: unknown };
  return {
    name: error.name,
    message: cleanText(error.message),
    ...(code === undefined ? {} : { code: cleanValue(code, depth + 1) }),
    ...(error.stack === undefined ? {} : { stack: cleanText(error.stack) }),
    ...(error.cause === undefined ? {} : { cause: cleanValue(error.cause, depth + 1) }),
  };
}
