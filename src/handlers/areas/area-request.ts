/** A request to an area outside of the storage protocol, as its handlers get it. */
import type { Caller } from '../../auth/authorization/authorize.ts';
import type { Identity } from '../../auth/identity.ts';
import type { RecordedFields } from '../../domain/events/audit/state-changes.ts';
import type { Recorder } from '../../domain/events/recorder.ts';
import type { Query, Wire } from '../../protocol/request/wire.ts';

export interface AreaRequest {
  readonly requestId: string;
  readonly wire: Wire;
  readonly query: Query;
  /** The caller, as it is since the body has arrived. */
  readonly identity: Identity;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Who asks, for decisions about an operation of an area. */
  callerOf(operation: string): Caller;
  /**
   * The whole body, verified. Authorize the caller again afterwards.
   * @param max its longest length in bytes; `bodyMaxDefault` unless given
   * @throws InvalidAccessKeyId for a key that was made inactive
   */
  readBody(max?: number): Promise<Uint8Array>;
  /** Reports the operation to the pipeline, and returns the recorder for its commits if it may change something. */
  asked(
    action: string,
    about: {
      readonly audited: boolean;
      readonly bucketName: string;
      /** The fields of a configuration whose changes the audit row shows. */
      readonly recorded?: RecordedFields;
    },
  ): Recorder | undefined;
}
