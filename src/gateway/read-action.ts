/** Reads the operation and parameters of an action: in the form of IAM and STS, or of S3 Control. */
import { fail } from '../base/errors.ts';
import type { Context } from '../context.ts';
import type { ControlAsked } from '../protocol/address.ts';
import { readXml } from '../protocol/formats/codec.ts';
import { bodyMaxDefault, type OperationName, selectAction } from '../protocol/operations/operations.ts';
import { createAccessPointRequest, putAccessPointPolicyRequest } from '../protocol/schemas/access.ts';
import { formBytesMax, isForm, type Parameters, readParameters } from '../protocol/wire.ts';
import { emptyBody, readBody } from '../request/body.ts';
import type { Identified } from '../request/request.ts';

type Ctx = Pick<Context, 'hasher' | 'bodyMemory'>;

export interface AskedAction {
  readonly operation: OperationName;
  readonly parameters: Parameters;
}

/**
 * @throws MissingAuthenticationToken: all actions need a signature, so the body of an anonymous request is not even read;
 *   InvalidRequest for a body that is no form, or that the signature does not cover; MissingRequestBodyError, MalformedXML
 */
export async function readAction(ctx: Ctx, request: Identified): Promise<AskedAction> {
  const { control, wire, identity } = request;
  if (identity === undefined) throw fail('MissingAuthenticationToken');
  if (control !== undefined) {
    const { operation } = control;
    return { operation, parameters: await readControl(ctx, request, control) };
  }
  const parameters = await readForm(ctx, request);
  return { operation: selectAction(wire.method, parameters.get('Action')), parameters };
}

/** The parameters of an action query, from the URL and from the form in its body. */
async function readForm(ctx: Ctx, request: Identified): Promise<Parameters> {
  const { wire, query, payload, incoming } = request;
  const hasBody = incoming.body !== undefined;
  const body =
    (await readBody(ctx, request, { hasBody, row: { bodyMax: formBytesMax }, countedIn: request })) ??
    emptyBody;
  if (body.length > 0 && !isForm(wire))
    throw fail('InvalidRequest', 'The parameters of an action come in the URL, or as a form in the body.');
  if (body.length > 0 && payload.sha256 === undefined)
    throw fail('InvalidRequest', 'The body of an action must be covered by the signature of the request.');
  return readParameters(query, body);
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

/** The parameters in the path of S3 Control, and those in its XML body under the action's names. */
async function readControl(
  ctx: Ctx,
  request: Identified,
  { operation, parameters }: ControlAsked,
): Promise<Parameters> {
  const hasBody = request.incoming.body !== undefined;
  const body = (await readBody(ctx, request, { hasBody, row: {}, countedIn: request })) ?? emptyBody;
  const read = readers[operation];
  if (read === undefined) return parameters;
  return new Map([...parameters, ...read(body)]);
}
