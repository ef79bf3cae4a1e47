/** The cases of a run: an operation, a size, and a meaningful number of keys. */
import { type OperationName, type OperationPlan, operations } from './operations.ts';

export interface Case {
  readonly operation: OperationName;
  readonly size: number;
  readonly keys: number;
  readonly bucket: string;
  /** Limits the clients; a quick run has no time for sixteen large bodies of each target. */
  readonly clientsMax: number;
}

const kib = 1024;
const mib = 1024 * kib;

export const sizes: Readonly<Record<string, number>> = { '4KiB': 4 * kib, '1MiB': mib, '64MiB': 64 * mib };

export const sizeName = (size: number): string =>
  size >= mib ? `${size / mib} MiB` : size >= kib ? `${size / kib} KiB` : `${size} B`;

/** Small puts use new keys only; large ones overwrite, so that the disk has room for the run. */
const freshKeysMax = 1e8;
const keysFor = (size: number): number => (size <= 64 * kib ? 1000 : size <= mib ? 64 : 8);

export function caseOf(operation: OperationName, size: number, clientsMax = Number.POSITIVE_INFINITY): Case {
  const { needs, bodies, encrypted }: OperationPlan = operations[operation];
  const isSmall = size <= 64 * kib;
  const kind = needs === undefined ? operation.replace('-sse', '') : needs === 'once' ? 'deletes' : 'objects';
  const keys = needs === 'objects' || !isSmall ? keysFor(size) : freshKeysMax;
  return {
    operation,
    size,
    keys: bodies === 1 && !isSmall ? 2 * keys : keys,
    bucket: `bench-${kind}${encrypted ? '-sse' : ''}-${size}`,
    clientsMax,
  };
}

const all = (names: readonly OperationName[], size: number, clientsMax?: number): Case[] =>
  names.map((name) => caseOf(name, size, clientsMax));

/** The cases that have goals, and the targets to compare with. */
export const quickTargets: readonly string[] = ['bare', 'bare-file', 'noop', 'sluice', 'versitygw'];
export const quickCases: readonly Case[] = [
  ...all(['put', 'get', 'stat'], 4 * kib),
  ...all(['put', 'put-sse', 'put-unsigned', 'get', 'get-sse'], 64 * mib, 3),
];

export const fullCases: readonly Case[] = [
  ...all(['put', 'put-unsigned', 'put-presigned', 'put-chunked'], 4 * kib),
  ...all(['get', 'get-presigned', 'stat', 'list', 'delete', 'mixed', 'put-sse', 'get-sse'], 4 * kib),
  ...all(['put', 'put-chunked', 'get', 'mixed'], mib),
  ...all(['put', 'put-sse', 'put-unsigned', 'put-chunked', 'get', 'get-sse', 'multipart'], 64 * mib),
];

/**
 * The load of a public load generator: signed chunks with a signed trailer, and few clients for large bodies. The clients sleep while they
 * wait for answers.
 */
export const matrixTargets: readonly string[] = ['sluice-default', 'sluice-fsync', 'versitygw'];
const largeClientsMax = 4;
export const matrixCases: readonly Case[] = [
  ...all(['put-trailer', 'get', 'stat', 'list-100', 'mixed-trailer'], 4 * kib),
  ...all(['put-trailer', 'get'], mib),
  ...all(['put-trailer', 'get'], 64 * mib, largeClientsMax),
  ...all(['multipart-trailer'], 20 * mib, largeClientsMax),
];
