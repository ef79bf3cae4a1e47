/** Object keys: at most 1024 bytes of UTF-8, never NUL (public API; design §5). */
import { fail } from '../errors/refusal.ts';
import { utf8Length } from './parameters.ts';

export const keyBytesMax = 1024;

/** @throws KeyTooLongError, InvalidArgument */
export function assertKey(key: string): void {
  // Three bytes a unit at most: short keys, nearly all, need no encoding.
  if (key.length * 3 > keyBytesMax && utf8Length(key) > keyBytesMax) {
    throw fail('KeyTooLongError', { elements: { Size: utf8Length(key), MaxSizeAllowed: keyBytesMax } });
  }
  if (key === '' || key.includes('\0')) {
    throw fail('InvalidArgument', {
      message: 'A key has at least one character and never NUL.',
      elements: { ArgumentName: 'key' },
    });
  }
  if (!key.isWellFormed()) throw fail('InvalidURI', 'The key is not valid UTF-8.');
}
