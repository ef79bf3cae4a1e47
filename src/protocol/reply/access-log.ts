/**
 * The names of operations in access logs, as the public service writes them:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html
 */
import { describeOperation, type OperationName } from '../operations/operations.ts';
import type { Scope } from '../operations/parameters.ts';

/** Sub-resources that the log calls by another name than the URL does. */
const resources: Readonly<Record<string, string>> = {
  'list-type=2': 'BUCKET',
  delete: 'MULTI_OBJECT_DELETE',
  'legal-hold': 'OBJECT_LOCK_LEGALHOLD',
  logging: 'LOGGING_STATUS',
  'object-lock': 'OBJECT_LOCK_CONFIGURATION',
  partNumber: 'PART',
  policy: 'BUCKETPOLICY',
  retention: 'OBJECT_LOCK_RETENTION',
  uploadId: 'UPLOAD',
  versions: 'BUCKETVERSIONS',
};

/** An operation as the log names it: `REST.<method>.<resource>`. */
export function loggedOperation(name: OperationName): string {
  const [method = '', scope = '', ...marks] = describeOperation(name).on.split(' ');
  if (method === 'OPTIONS') return 'REST.OPTIONS.PREFLIGHT';
  const named = marks.filter((mark) => mark.startsWith('?')).map((mark) => mark.slice(1));
  const mark = named.find((each) => each === 'partNumber') ?? named[0];
  const resource = mark === undefined ? scope.toUpperCase() : nameResource(mark, scope as Scope);
  return `REST.${marks.includes('+copy-source') ? 'COPY' : method}.${resource}`;
}

function nameResource(mark: string, scope: Scope): string {
  if (mark === 'tagging' && scope === 'object') return 'OBJECT_TAGGING';
  return (
    resources[mark] ??
    mark
      .replace(/[a-z](?=[A-Z])/g, '$&_')
      .replaceAll('-', '_')
      .toUpperCase()
  );
}
