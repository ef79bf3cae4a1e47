/** The `Range` header (RFC 9110 §14): one range of bytes; what cannot be parsed is ignored, as the RFC says. */
import type { Slice } from '../../domain/read-object.ts';
import { fail } from '../../errors/refusal.ts';

/** @returns undefined when the whole content is meant @throws InvalidRange when nothing of it is there */
export function parseRange(raw: string | undefined, size: number): Slice | undefined {
  const match = raw === undefined ? null : /^bytes\s*=\s*(\d*)\s*-\s*(\d*)$/i.exec(raw.trim());
  if (raw === undefined || match === null) return undefined;
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return undefined;
  if (first !== '' && last !== '' && Number(first) > Number(last)) return undefined;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (start > end || start >= size) {
    throw fail('InvalidRange', {
      elements: { RangeRequested: raw, ActualObjectSize: size },
      headers: { 'Content-Range': `bytes */${size}` },
    });
  }
  return { start, end };
}
