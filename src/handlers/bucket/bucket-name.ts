/** Bucket names: the public API's rules, and the areas of this service. */
import { fail } from '../../errors/refusal.ts';

/** First path segments that mean something else; a bucket of that name could never be addressed by path. */
export const reservedNames: ReadonlySet<string> = new Set([
  'admin',
  'console',
  'metrics',
  'healthz',
  'readyz',
  'iam',
]);

const shape = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const forbidden = [
  /\.\./,
  /\.-|-\./,
  /^\d{1,3}(\.\d{1,3}){3}$/,
  /^xn--/,
  /^sthree-/,
  /-s3alias$/,
  /--ol-s3$/,
  /--x-s3$/,
  /^amzn-s3-demo-$/,
];

/** @throws InvalidBucketName saying which rule it breaks */
export function assertBucketName(name: string): void {
  const why = findFault(name);
  if (why !== undefined)
    throw fail('InvalidBucketName', {
      message: `The specified bucket is not valid: ${why}.`,
      elements: { BucketName: name },
    });
}

function findFault(name: string): string | undefined {
  if (reservedNames.has(name)) return `"${name}" is an area of this service`;
  if (!shape.test(name))
    return 'a name has 3 to 63 of a-z, 0-9, "." and "-", and begins and ends with a letter or digit';
  if (forbidden.some((rule) => rule.test(name)))
    return 'it looks like an address, or uses a reserved prefix or suffix, or has adjacent "." and "-"';
  return undefined;
}
