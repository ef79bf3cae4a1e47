/** What the build reads from the table of the operator API, and puts in the place of this file (console/build.ts). */
import type { AdminOperationName } from '../../src/protocol/operations/admin.ts';

/** Method and path of each operation. */
export const operations: Readonly<Partial<Record<AdminOperationName, string>>> = {};
/** Those with GET that BatchRead does not perform, and those with POST that it does. */
export const exceptions: readonly AdminOperationName[] = [];
