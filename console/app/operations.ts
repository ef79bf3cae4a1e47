/** The build replaces this file by the values of the operator API's table (console/build.ts). */
import type { AdminOperationName } from '../../src/protocol/admin/operations.ts';

/** Method and path of each operation that the sources of the console name in single quotes. */
export const operations: Readonly<Partial<Record<AdminOperationName, string>>> = {};
/** Operations with GET that BatchRead does not perform, and those with another method that it performs. */
export const batchExceptions: readonly AdminOperationName[] = [];
