/** What is known of a request as soon as it arrives, and what the steps learn for whoever looks at it when it has ended. */
import type { Held } from '../handlers/body.ts';
import type { Call } from '../handlers/call.ts';
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { ErrorFormat } from '../protocol/render.ts';
import type { Place } from './locate.ts';
import type { Recording } from './recording.ts';

export interface Trace extends Held {
  readonly requestId: string;
  readonly path: string;
  dialect: Dialect | undefined;
  place: Place | undefined;
  bucket: BucketRow | undefined;
  operation: string;
  format: ErrorFormat;
  /** Who asked for which object how, and the version that it was about. */
  call: Pick<Call, 'identity' | 'signed' | 'payload' | 'key'> | undefined;
  target: ObjectRow | undefined;
  /** Of a request that may change something, as soon as that is known. */
  recording: Recording | undefined;
}

/** The operation of a request that was refused before it was selected. */
export const unknownOperation = 'Unknown';

export const openTrace = (requestId: string, path: string): Trace => ({
  requestId,
  path,
  dialect: undefined,
  place: undefined,
  bucket: undefined,
  operation: unknownOperation,
  format: 'xml',
  call: undefined,
  target: undefined,
  recording: undefined,
  heldBytes: 0,
});
