/** The call of an action of IAM, of STS or on access points. */
import type { Identity } from '../../auth/identity.ts';
import type { Call } from '../call.ts';

/** A call whose caller is known, as all callers of actions are. */
export interface ActionCall extends Call {
  readonly identity: NonNullable<Identity>;
}
