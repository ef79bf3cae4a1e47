/** Text out of keys, where there are Buffers: half the price of a TextDecoder. */
import type { DecodeText } from './order.ts';

export const decodeText: DecodeText = (bytes, start, end) => {
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return buffer.toString('utf8', start, end);
};
