/** The `Range` header (RFC 9110 §14): one range of bytes. An invalid header is ignored, as the RFC requires. */
import type { Slice } from '../../../domain/objects/read-object.ts';
import { fail } from '../../../errors/refusal.ts';

/** @returns undefined for the whole content @throws InvalidRange when the range has no byte of the content */
export function parseRange(raw: string | undefined, size: number): Slice | undefined {
  const wanted = raw === undefined ? undefined : positionsIn(raw);
  if (raw === undefined || wanted === undefined) return undefined;
  const { first, last } = wanted;
  if (first === '' && last === '') return undefined;
  if (first !== '' && last !== '' && Number(first) > Number(last)) return undefined;
  // A suffix that is longer than the content is all of it, also of nothing (RFC 9110 §14.1.2).
  if (size === 0 && first === '' && Number(last) > 0) return undefined;
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

/** The first and last position as written, either may be empty; undefined for anything but one range of bytes. */
function positionsIn(raw: string): { readonly first: string; readonly last: string } | undefined {
  const equals = raw.indexOf('=');
  const hyphen = raw.indexOf('-', equals);
  if (equals < 0 || hyphen < 0) return undefined;
  if (raw.slice(0, equals).trim().toLowerCase() !== 'bytes') return undefined;
  const first = raw.slice(equals + 1, hyphen);
  const last = raw.slice(hyphen + 1).trimEnd();
  return digits.test(first) && digits.test(last) ? { first, last } : undefined;
}

const digits = /^\d*$/;
