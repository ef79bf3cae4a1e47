/** The call of an action of IAM, of STS or on access points. */
import type { Identity } from '../../auth/identity.ts';
import type { Authorized } from '../../gateway/request.ts';

/** A request whose caller is known: actions have no anonymous callers. */
export interface ActionRequest extends Authorized {
  readonly identity: NonNullable<Identity>;
}
