/** Object keys: at most 1024 bytes of UTF-8, never NUL (public API). */
import { fail } from '../../errors/refusal.ts';
import type { Query } from '../../protocol/request/wire.ts';
import { utf8Length } from './parameters.ts';

export const keyBytesMax = 1024;

/** @throws KeyTooLongError, InvalidArgument */
export function assertKey(key: string): void {
  assertLength(key);
  if (key === '' || key.includes('\0')) {
    throw fail('InvalidArgument', {
      message: 'A key has at least one character and never NUL.',
      elements: { ArgumentName: 'key' },
    });
  }
  if (!key.isWellFormed()) throw fail('InvalidURI', 'The key is not valid UTF-8.');
}

/**
 * Checks a text that a listing compares with keys: a prefix, a marker, the position in a token.
 * @throws KeyTooLongError, InvalidArgument for a text that no key can have
 */
export function assertPlace(text: string, name: string): string {
  assertLength(text);
  if (text.includes('\0') || !text.isWellFormed()) {
    throw fail('InvalidArgument', {
      message: `${name} must be UTF-8 without NUL, as keys are.`,
      elements: { ArgumentName: name },
    });
  }
  return text;
}

/** The parameter as such a place, '' when it is absent. */
export const positionIn = (query: Query, name: string): string => assertPlace(query.get(name) ?? '', name);

function assertLength(text: string): void {
  // Three bytes a unit at most: short keys, nearly all, need no encoding.
  if (text.length * 3 > keyBytesMax && utf8Length(text) > keyBytesMax) {
    throw fail('KeyTooLongError', { elements: { Size: utf8Length(text), MaxSizeAllowed: keyBytesMax } });
  }
}
