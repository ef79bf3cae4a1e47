/** The headers of a request's dialect, by bare name: `storage-class` is `x-amz-storage-class` or its neutral twin. */

import { amz, type Dialect, store } from '../protocol/dialect.ts';
import { headerText } from '../protocol/formats/header-text.ts';
import { isHoisted } from '../protocol/operations/operations.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import type { Identified } from './request.ts';

type Named = Pick<Identified, 'own'>;

export const header = ({ own }: Named, bareName: string): string | undefined => own.get(bareName);

/** The headers of the request's dialect whose bare names start with `prefix`, as `[rest of the name, value]`. */
export function headersUnder({ own }: Named, prefix: string): [string, string][] {
  const found: [string, string][] = [];
  for (const [name, value] of own)
    if (name.startsWith(prefix)) found.push([name.slice(prefix.length), value]);
  return found;
}

/**
 * The request's dialect headers by bare name. A request without a dialect may use the headers of both, and those of the public API
 * take precedence. Presigners move headers into the query, where the signature covers them: these are included (public API).
 */
export function ownHeaders(
  { headers }: Wire,
  query: Query,
  dialect: Dialect | undefined,
): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const { headerPrefix } of dialect === undefined ? [amz, store] : [dialect]) {
    for (const name of headers.names()) {
      if (!name.startsWith(headerPrefix)) continue;
      const bareName = name.slice(headerPrefix.length);
      if (!own.has(bareName)) own.set(bareName, headers.get(name) ?? '');
    }
  }
  if (dialect === undefined) return own;
  for (const [name, value] of query.pairs) {
    const lower = name.toLowerCase();
    if (!lower.startsWith(dialect.headerPrefix)) continue;
    const bareName = lower.slice(dialect.headerPrefix.length);
    if (!isHoisted(bareName)) continue;
    const text = headerText(lower, value);
    if (!own.has(bareName)) own.set(bareName, text);
  }
  return own;
}
