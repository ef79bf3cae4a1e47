/** What a request in the shape of S3 Control asks: what its path says, and what its XML body says under the action's names. */
import type { Identity, Payload } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import { fail } from '../errors/refusal.ts';
import { type Held, readBody } from '../handlers/body.ts';
import { readXml } from '../protocol/codec.ts';
import type { ControlAsked } from '../protocol/control-path.ts';
import { bodyMaxDefault } from '../protocol/operations.ts';
import { createAccessPointRequest, putAccessPointPolicyRequest } from '../protocol/schemas/access-points.ts';
import type { Incoming, Wire } from '../protocol/wire.ts';

export interface ControlArrival {
  readonly wire: Wire;
  readonly own: ReadonlyMap<string, string>;
  readonly identity: Identity;
  readonly payload: Payload;
  readonly incoming: Pick<Incoming, 'body'>;
  readonly held: Held;
}

type Said = readonly (readonly [string, string])[];

const readers: { readonly [O in ControlAsked['operation']]?: (body: Uint8Array) => Said } = {
  CreateAccessPoint: (body) => {
    const limits = { maxBytes: bodyMaxDefault };
    const asked = readXml(createAccessPointRequest, 'CreateAccessPointRequest', body, limits);
    const { Bucket, BucketAccountId, VpcConfiguration, PublicAccessBlockConfiguration = {} } = asked;
    if (VpcConfiguration !== undefined)
      throw fail('NotImplemented', 'There are no VPCs that an access point could be for.');
    return [
      ['Bucket', Bucket],
      ...(BucketAccountId === undefined ? [] : [['BucketAccountId', BucketAccountId] as const]),
      ...Object.entries(PublicAccessBlockConfiguration).map(
        ([name, value]) => [`PublicAccessBlockConfiguration.${name}`, String(value)] as const,
      ),
    ];
  },
  PutAccessPointPolicy: (body) => {
    const limits = { maxBytes: bodyMaxDefault };
    const { Policy } = readXml(putAccessPointPolicyRequest, 'PutAccessPointPolicyRequest', body, limits);
    return [['Policy', Policy]];
  },
};

/** @throws MissingAuthenticationToken, MissingRequestBodyError, MalformedXML */
export async function readControl(
  ctx: Pick<Context, 'hasher' | 'bodyMemory'>,
  { operation, parameters }: ControlAsked,
  arrival: ControlArrival,
): Promise<ReadonlyMap<string, string>> {
  if (arrival.identity === undefined) throw fail('MissingAuthenticationToken');
  const hasBody = arrival.incoming.body !== undefined;
  const body = await readBody(ctx, arrival, { hasBody, row: {}, held: arrival.held });
  const read = readers[operation];
  if (read === undefined) return parameters;
  if (body.length === 0) throw fail('MissingRequestBodyError');
  return new Map([...parameters, ...read(body)]);
}
