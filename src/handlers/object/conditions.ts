/** Conditional headers, read once for reads, writes and the sources of copies. */
import type { Conditions } from '../../domain/conditions.ts';
import { type Call, header } from '../call.ts';
import { dateOf, defined } from '../parameters.ts';

export const readConditions = ({ wire }: Call): Conditions =>
  defined({
    ifMatch: wire.headers.get('if-match'),
    ifNoneMatch: wire.headers.get('if-none-match'),
    ifModifiedSince: dateOf(wire.headers.get('if-modified-since')),
    ifUnmodifiedSince: dateOf(wire.headers.get('if-unmodified-since')),
  });

export const writeConditions = ({ wire }: Call): Conditions =>
  defined({ ifMatch: wire.headers.get('if-match'), ifNoneMatch: wire.headers.get('if-none-match') });

export function deleteConditions(call: Call): Conditions {
  const size = header(call, 'if-match-size');
  return defined({
    ifMatch: call.wire.headers.get('if-match'),
    ifUnmodifiedSince: dateOf(header(call, 'if-match-last-modified-time')),
    ifSize: size === undefined ? undefined : Number(size),
  });
}

export const sourceConditions = (call: Call): Conditions =>
  defined({
    ifMatch: header(call, 'copy-source-if-match'),
    ifNoneMatch: header(call, 'copy-source-if-none-match'),
    ifModifiedSince: dateOf(header(call, 'copy-source-if-modified-since')),
    ifUnmodifiedSince: dateOf(header(call, 'copy-source-if-unmodified-since')),
  });
