/** Conditional headers, read once for reads, writes and the sources of copies. */
import type { Conditions } from '../../../domain/objects/conditions.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Authorized } from '../../../gateway/request.ts';
import { header } from '../../common/own-headers.ts';
import { defined, parseHttpDate } from '../../common/parameters.ts';

/** Undefined when the request is unconditional. */
export const readConditions = ({ wire }: Authorized): Conditions | undefined =>
  toConditions({
    ifMatch: wire.headers.get('if-match'),
    ifNoneMatch: wire.headers.get('if-none-match'),
    ifModifiedSince: parseHttpDate(wire.headers.get('if-modified-since')),
    ifUnmodifiedSince: parseHttpDate(wire.headers.get('if-unmodified-since')),
  });

type Fields = { readonly [Name in keyof Conditions]: Conditions[Name] | undefined };

/** Undefined when no field has a value: the request is unconditional. */
export function toConditions(fields: Fields): Conditions | undefined {
  const conditions: Conditions = defined(fields);
  return Object.keys(conditions).length === 0 ? undefined : conditions;
}

/** Undefined when the write is unconditional. If-Modified-Since is for reads alone (RFC 9110 §13.1.3). */
export const writeConditions = (request: Authorized): Conditions | undefined => {
  const { ifModifiedSince: _, ...conditions } = readConditions(request) ?? {};
  return toConditions(conditions);
};

/** Refuses an invalid condition: a delete that ignored its condition could not be undone. */
export function deleteConditions(request: Authorized): Conditions | undefined {
  const size = header(request, 'if-match-size');
  const modified = header(request, 'if-match-last-modified-time');
  if (size !== undefined && !/^\d{1,15}$/.test(size)) throw unreadable('if-match-size', size);
  const modifiedAt = parseHttpDate(modified);
  if (modified !== undefined && modifiedAt === undefined)
    throw unreadable('if-match-last-modified-time', modified);
  return toConditions({
    ...writeConditions(request),
    ifModifiedAt: modifiedAt,
    ifSize: size === undefined ? undefined : Number(size),
  });
}

const unreadable = (name: string, value: string) =>
  fail('InvalidArgument', {
    message: `${name} cannot be understood`,
    elements: { ArgumentName: name, ArgumentValue: value },
  });

/** Undefined when the copy does not depend on its source. */
export const sourceConditions = (request: Authorized): Conditions | undefined =>
  toConditions({
    ifMatch: header(request, 'copy-source-if-match'),
    ifNoneMatch: header(request, 'copy-source-if-none-match'),
    ifModifiedSince: parseHttpDate(header(request, 'copy-source-if-modified-since')),
    ifUnmodifiedSince: parseHttpDate(header(request, 'copy-source-if-unmodified-since')),
  });
