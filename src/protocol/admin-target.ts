/**
 * What a request to the operator API is about: the decoded names in its path, and the path that they make. Policies, the audit log and
 * idempotency keys read this and never the path as it was sent, which has many spellings.
 */
import { fail, Refusal } from '../base/errors.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  adminPrefix,
  describeAdminOperation,
} from './admin/operations.ts';
import { percentDecode } from './wire.ts';

export interface AdminTarget {
  readonly params: ReadonlyMap<string, string>;
  /** Below the prefix, such as `clusters/b/drain`. */
  readonly path: string;
  /** '' where the operation is about no bucket. */
  readonly bucketName: string;
}

/** Longer than every name of this service. */
const partMax = 1_024;

/** The target, or the InvalidArgument or InvalidURI that refuses it: the request is recorded before it is refused. */
export function readAdminTarget(
  name: AdminOperationName,
  input: Readonly<Record<string, string>>,
): AdminTarget | Refusal {
  const { path, tag } = describeAdminOperation(name);
  try {
    const params = new Map(Object.entries(input).map(([part, raw]) => [part, readPart(part, raw)]));
    return {
      params,
      path: fillPath(path.slice(`${adminPrefix}/`.length), params),
      bucketName: params.get(tag === 'buckets' ? 'name' : 'bucket') ?? '',
    };
  } catch (cause) {
    if (cause instanceof Refusal) return cause;
    throw cause;
  }
}

/** A path with the values of its names. */
export const fillPath = (path: string, params: Pick<ReadonlyMap<string, string>, 'get'>): string =>
  path.replace(/:(\w+)/g, (_, part) => params.get(part) ?? '');

/** A decoded slash is refused, because the path that policies see would be that of something else. */
function readPart(part: string, raw: string): string {
  const value = percentDecode(raw);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no name has a control character, and backends refuse U+0000 in keys.
  if (value.length <= partMax && !/[\u0000-\u001f\u007f/]/.test(value)) return value;
  throw fail('InvalidArgument', {
    message: `The ${part} in the path must have at most ${partMax} characters, none of them a slash or a control character.`,
    field: part,
  });
}

interface AdminMatch {
  readonly name: AdminOperationName;
  /** The names in the path, as they were sent. */
  readonly input: Readonly<Record<string, string>>;
}

/** The operation of a method and local path; also of a path with slashes at its end, which is refused. */
export function matchAdmin(method: string, local: string): AdminMatch | undefined {
  const requested = method === 'HEAD' ? 'GET' : method;
  for (const name of adminOperationNames) {
    const row = describeAdminOperation(name);
    const match = row.method === requested ? toPattern(row.path).exec(local) : null;
    if (match !== null) return { name, input: match.groups ?? {} };
  }
  return undefined;
}

const toPattern = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll('.', '\\.').replace(/:(\w+)/g, '(?<$1>[^/]+)')}/*$`);
