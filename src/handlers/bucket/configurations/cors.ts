/** GetBucketCors, PutBucketCors, DeleteBucketCors. */
import { bucketCors, type CorsRule } from '../../../domain/configurations/families.ts';
import { fail } from '../../../errors/refusal.ts';
import { corsConfiguration } from '../../../protocol/schemas/bucket/cors.ts';
import { document } from '../../common/document.ts';

const rulesMax = 100;
const idMax = 255;
/** RFC 9110 "token". */
const headerName = /^[!#$%&'+.^_`|~0-9A-Za-z-]+$/;
const methods = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD']);

function checkRule({ ID, AllowedMethod, AllowedOrigin, AllowedHeader, ExposeHeader }: CorsRule): void {
  if (ID !== undefined && ID.length > idMax)
    throw fail('InvalidRequest', `ID length should not exceed allowed limit of ${idMax}.`);
  for (const method of AllowedMethod) {
    if (!methods.has(method))
      throw fail(
        'InvalidRequest',
        `Found unsupported HTTP method in CORS config. Unsupported method is ${method}`,
      );
  }
  checkWildcards('AllowedOrigin', AllowedOrigin);
  checkWildcards('AllowedHeader', AllowedHeader);
  for (const name of ExposeHeader) {
    if (name.includes('*'))
      throw fail(
        'InvalidRequest',
        `ExposeHeader "${name}" contains wildcard. We currently do not support wildcard for ExposeHeader.`,
      );
    // The name is copied into a header of every reply that the rule allows.
    if (!headerName.test(name))
      throw fail('InvalidRequest', `ExposeHeader "${name}" contains invalid character.`);
  }
}

function checkWildcards(element: string, values: readonly string[]): void {
  for (const value of values) {
    if (value.split('*').length > 2)
      throw fail('InvalidRequest', `${element} "${value}" can not have more than one wildcard.`);
  }
}

const configuration = document({
  family: bucketCors,
  root: 'CORSConfiguration',
  schema: corsConfiguration,
  unset: 'NoSuchCORSConfiguration',
  validate: (_ctx, _call, value) => {
    if (value.CORSRule.length > rulesMax)
      throw fail(
        'InvalidRequest',
        `The number of CORS rules should not exceed allowed limit of ${rulesMax} rules.`,
      );
    for (const rule of value.CORSRule) checkRule(rule);
    return value;
  },
});

export const GetBucketCors = configuration.get;
export const PutBucketCors = configuration.put;
export const DeleteBucketCors = configuration.remove;
