/** Method and path of each operation of the operator API. The build replaces this file by the values (console/build.ts). */
import type { AdminOperationName } from '../../src/protocol/operations/admin.ts';

export const operations: Readonly<Partial<Record<AdminOperationName, string>>> = {};
