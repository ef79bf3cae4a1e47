/**
 * GetBucketCors, PutBucketCors, DeleteBucketCors, and the preflight: OptionsBucket, OptionsObject.
 * `gateway/cross-origin.ts` adds the headers to replies.
 */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { isAlias, type Reached, reach } from '../../domain/access/access-points.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { bucketCors, type CorsRule } from '../../domain/configurations/families.ts';
import type { Reply } from '../../protocol/reply.ts';
import { corsConfiguration } from '../../protocol/schemas/bucket.ts';
import type { Authorized } from '../../request/request.ts';
import { type Checks, checkEach } from '../common/checks.ts';
import { allowingHeaders, matchCors, readCrossOrigin, varyHeader } from '../common/cross-origin.ts';
import { document } from '../common/document.ts';
import { emptyReply } from '../handler.ts';

const rulesMax = 100;
const idMax = 255;
/** RFC 9110 "token". */
const headerName = /^[!#$%&'+.^_`|~0-9A-Za-z-]+$/;
/** The methods that a rule can allow. */
const methods: ReadonlySet<string> = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD']);

async function checkRule(
  checks: Checks,
  { ID, AllowedMethod, AllowedOrigin, AllowedHeader, ExposeHeader }: CorsRule,
  path: string,
): Promise<void> {
  await checks.at({ path: `${path}.ID`, right: `at most ${idMax} characters` }, () => {
    if (ID !== undefined && ID.length > idMax)
      throw fail('InvalidRequest', `ID length should not exceed allowed limit of ${idMax}.`);
  });
  await checkEach(
    checks,
    { path: `${path}.AllowedMethod`, right: [...methods].join(', ') },
    { members: AllowedMethod, check: checkMethod },
  );
  for (const [element, members] of Object.entries({ AllowedOrigin, AllowedHeader }))
    await checkEach(
      checks,
      { path: `${path}.${element}`, right: 'a value with at most one *' },
      { members, check: (value) => checkWildcards(element, value) },
    );
  await checkEach(
    checks,
    { path: `${path}.ExposeHeader`, right: 'the name of a header' },
    { members: ExposeHeader, check: checkExposed },
  );
}

function checkMethod(method: string): void {
  if (!methods.has(method))
    throw fail(
      'InvalidRequest',
      `Found unsupported HTTP method in CORS config. Unsupported method is ${method}`,
    );
}

function checkExposed(name: string): void {
  if (name.includes('*'))
    throw fail(
      'InvalidRequest',
      `ExposeHeader "${name}" contains wildcard. We currently do not support wildcard for ExposeHeader.`,
    );
  // The name is copied into a header of every reply that the rule allows.
  if (!headerName.test(name))
    throw fail('InvalidRequest', `ExposeHeader "${name}" contains invalid character.`);
}

function checkWildcards(element: string, value: string): void {
  if (value.split('*').length > 2)
    throw fail('InvalidRequest', `${element} "${value}" can not have more than one wildcard.`);
}

const configuration = document({
  family: bucketCors,
  schema: corsConfiguration,
  unset: 'NoSuchCORSConfiguration',
  validate: async (_ctx, { checks }, value) => {
    await checks.at({ path: 'CORSRule', right: `at most ${rulesMax} rules` }, () => {
      if (value.CORSRule.length > rulesMax)
        throw fail(
          'InvalidRequest',
          `The number of CORS rules should not exceed allowed limit of ${rulesMax} rules.`,
        );
    });
    for (const [index, rule] of value.CORSRule.entries()) await checkRule(checks, rule, `CORSRule[${index}]`);
    return value;
  },
});

export const cors = configuration.configuration;
export const GetBucketCors = configuration.get;
export const PutBucketCors = configuration.put;
export const DeleteBucketCors = configuration.remove;

// OptionsBucket and OptionsObject: a browser asks whether a page may send a request. The caller is neither authenticated nor
// authorized, and the key need not exist. The texts are those of the public API.

/** The bucket that the request addresses, also through an access point. */
async function lookUpAddressed(
  ctx: Context,
  { addressedName, virtual }: Authorized,
): Promise<Reached | undefined> {
  try {
    return await reach(ctx, addressedName, { isHost: virtual !== undefined });
  } catch (cause) {
    if (cause instanceof Refusal) return undefined;
    throw cause;
  }
}

async function preflight(ctx: Context, request: Authorized): Promise<Reply> {
  const { wire, addressedName, key } = request;
  const asked = readCrossOrigin(wire);
  if (asked === undefined)
    throw fail('BadRequest', 'Insufficient information. Origin request header needed.');
  const refuse = (message: string, resource: 'BUCKET' | 'OBJECT') =>
    fail('AccessForbidden', {
      message: `CORSResponse: ${message}`,
      elements: { Method: asked.method, ResourceType: resource },
    });
  const reached = await lookUpAddressed(ctx, request);
  const cors = reached && (await readDocument(ctx, reached.bucket, bucketCors));
  if (cors === undefined) {
    // The answer must not tell whether an access point exists: an alias has one answer, and a host label that of a missing bucket.
    const isFound = isAlias(addressedName) || (reached !== undefined && reached.accessPoint === undefined);
    throw refuse(isFound ? 'CORS is not enabled for this bucket.' : 'Bucket not found', 'BUCKET');
  }
  const method = wire.headers.get('access-control-request-method');
  if (method === undefined || !methods.has(method))
    throw fail('BadRequest', `Invalid Access-Control-Request-Method: ${method ?? 'null'}`);
  const rule = matchCors(cors, asked);
  if (rule === undefined) {
    throw refuse(
      "This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
      key === '' ? 'BUCKET' : 'OBJECT',
    );
  }
  return emptyReply(200, [...allowingHeaders(rule, asked), varyHeader]);
}

export const OptionsBucket = preflight;
export const OptionsObject = preflight;
