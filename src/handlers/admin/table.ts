/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters.ts';
import * as defaultClass from './default-class.ts';
import * as drains from './drains.ts';
import { ExplainDecision } from './explain-decision.ts';
import * as forceEmpty from './force-empty.ts';
import * as fsck from './fsck.ts';
import { ImportAccessKey } from './import-access-key.ts';
import * as placement from './placement.ts';
import * as reshard from './reshard.ts';
import * as scrub from './scrub.ts';
import * as storage from './storage.ts';

export const adminHandlers: AdminHandlers = {
  ExplainDecision,
  ImportAccessKey,
  ...storage,
  ...forceEmpty,
  ...reshard,
  ...fsck,
  ...scrub,
  ...clusters,
  ...drains,
  ...placement,
  ...defaultClass,
};
