/** GetBucketCors, PutBucketCors, DeleteBucketCors. */

import { fail } from '../../base/errors.ts';
import { bucketCors, type CorsRule } from '../../domain/configurations/families.ts';
import { corsConfiguration } from '../../protocol/schemas/bucket.ts';
import { type Checks, checkEach } from '../common/checks.ts';
import { document } from '../common/document.ts';

const rulesMax = 100;
const idMax = 255;
/** RFC 9110 "token". */
const headerName = /^[!#$%&'+.^_`|~0-9A-Za-z-]+$/;
const methods = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD']);

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
  root: 'CORSConfiguration',
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
