/** Which operation an action asks for and with what: in the words of IAM and STS, or in the shape of S3 Control. */
import type { Context } from '../context.ts';
import type { Parameters } from '../protocol/action-query.ts';
import type { ControlAsked } from '../protocol/control-path.ts';
import type { OperationName } from '../protocol/operations.ts';
import { selectAction } from '../protocol/select.ts';
import { type ActionArrival, readAction } from './read-action.ts';
import { readControl } from './read-control.ts';

export interface AskedAction {
  readonly operation: OperationName;
  readonly parameters: Parameters;
}

export async function askedAction(
  ctx: Context,
  arrival: ActionArrival,
  control: ControlAsked | undefined,
): Promise<AskedAction> {
  if (control !== undefined) {
    const { operation } = control;
    return { operation, parameters: await readControl(ctx, control, arrival) };
  }
  const parameters = await readAction(ctx, arrival);
  return { operation: selectAction(arrival.wire.method, parameters.get('Action')), parameters };
}
