/** The Resource element: ARN patterns, and the resources that a resource policy may name. */

import { compileArnPattern } from '../conditions/operators.ts';
import { splitArn } from '../patterns.ts';
import type { PolicyRequest } from '../request.ts';
import type { ActionLevel } from './actions.ts';
import { malformed, quoted } from './malformed.ts';

export interface Resources {
  /** A variable without a value names nothing: 'unresolved' when such a pattern might have matched. */
  match(request: PolicyRequest): boolean | 'unresolved';
}

export interface ResourceRules {
  readonly at: string;
  readonly variables: boolean;
  /** The bucket that a bucket policy is put on. */
  readonly bucket?: string | undefined;
  /** The ARN of the access point that a policy is put on. */
  readonly accessPoint?: string | undefined;
}

const resourceMax = 2048;
const everything = '*';

/** Whether the pattern can match the bucket or an object in it. One that cannot is refused, because no request would ever match it. */
function canName(given: string, bucket: string): boolean {
  if (given === everything) return true;
  const [, , service = '', , , rest = ''] = splitArn(given) ?? [];
  if (service !== 's3' && !/[*?]/.test(service)) return false;
  const [head = ''] = rest.split(/[*?$]/);
  const isExact = head.length === rest.length || head.includes('/');
  return isExact ? head.split('/')[0] === bucket : `${bucket}/`.startsWith(head);
}

function checkPlace(given: string, { at, bucket, accessPoint }: ResourceRules): void {
  if (given.length > resourceMax)
    throw malformed(at, `${quoted(given)} is longer than ${resourceMax} characters`);
  if (bucket !== undefined && !canName(given, bucket))
    throw malformed(at, `${quoted(given)} is not in the bucket ${bucket}`);
  if (accessPoint === undefined || given === everything) return;
  if (given !== accessPoint && !given.startsWith(`${accessPoint}/object/`))
    throw malformed(at, `${quoted(given)} is not of the access point ${accessPoint}`);
}

/** @throws MalformedPolicy */
export function compileResources(list: readonly string[], rules: ResourceRules): Resources {
  for (const given of list) checkPlace(given, rules);
  const patterns = list
    .filter((given) => given !== everything)
    .map((given) => compileArnPattern(given, { at: rules.at, variables: rules.variables }));
  if (patterns.length < list.length) return { match: () => true };
  return {
    match: (request) => {
      let unresolved = false;
      for (const matches of patterns) {
        const answer = matches(request.resource, request);
        if (answer === true) return true;
        if (answer === 'unresolved') unresolved = true;
      }
      return unresolved ? 'unresolved' : false;
    },
  };
}

/** The level of a bucket policy's resource: a pattern that ends without a slash may be both bucket and object. */
export function levelsOfResource(given: string): readonly ActionLevel[] {
  const rest = given === everything ? everything : (splitArn(given)?.[5] ?? everything);
  if (rest.includes('/')) return ['object'];
  return /[*$]/.test(rest) ? ['bucket', 'object'] : ['bucket'];
}
