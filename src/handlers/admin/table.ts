/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */
import type { AdminHandlers } from './call.ts';
import { ExplainDecision } from './explain-decision.ts';
import { ImportAccessKey } from './import-access-key.ts';

export const adminHandlers: AdminHandlers = {
  ExplainDecision,
  ImportAccessKey,
};
