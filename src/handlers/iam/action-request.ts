/** The call of an action of IAM, of STS or on access points. */
import type { Identity } from '../../auth/identity.ts';
import type { Authorized } from '../../gateway/request.ts';

/** A call whose caller is known, as all callers of actions are. */
export interface ActionRequest extends Authorized {
  readonly identity: NonNullable<Identity>;
}
