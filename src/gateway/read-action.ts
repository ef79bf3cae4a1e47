/** What an action query asks: its parameters, from the URL and from the form in its body. */
import type { Identity, Payload } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import { fail } from '../errors/refusal.ts';
import { type Held, readBody } from '../handlers/body.ts';
import { formBytesMax, isForm, type Parameters, readParameters } from '../protocol/action-query.ts';
import type { Incoming, Query, Wire } from '../protocol/wire.ts';

export interface ActionArrival {
  readonly wire: Wire;
  readonly own: ReadonlyMap<string, string>;
  readonly query: Query;
  readonly identity: Identity;
  readonly payload: Payload;
  readonly incoming: Pick<Incoming, 'body'>;
  readonly held: Held;
}

/**
 * @throws MissingAuthenticationToken: nobody may call these without a signature, so their bodies are not even read;
 *   InvalidRequest for a body that is no form, or that the signature does not cover
 */
export async function readAction(
  ctx: Pick<Context, 'hasher' | 'bodyMemory'>,
  arrival: ActionArrival,
): Promise<Parameters> {
  const { wire, query, identity, payload, incoming, held } = arrival;
  if (identity === undefined) throw fail('MissingAuthenticationToken');
  const hasBody = incoming.body !== undefined;
  const body = await readBody(ctx, arrival, { hasBody, row: { bodyMax: formBytesMax }, held });
  if (body.length > 0 && !isForm(wire))
    throw fail('InvalidRequest', 'The parameters of an action come in the URL, or as a form in the body.');
  if (body.length > 0 && payload.sha256 === undefined)
    throw fail('InvalidRequest', 'The body of an action must be covered by the signature of the request.');
  return readParameters(query, body);
}
