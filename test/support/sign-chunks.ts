/** The client's half of aws-chunked bodies: signed chunks, signed and unsigned trailers. */
import { createHash, createHmac } from 'node:crypto';
import type { RequestSpec } from './sign.ts';

export interface Chunk {
  /** The hexadecimal length in the chunk header. */
  readonly size: string;
  /** Undefined in the unsigned mode. */
  readonly signature: string | undefined;
  readonly data: Uint8Array;
}

interface Frame {
  readonly spec: RequestSpec;
  readonly trailers: readonly [string, string][];
}
export interface SignedFrame extends Frame {
  readonly key: Uint8Array;
  readonly timestamp: string;
  readonly scope: string;
  /** `AWS4` or `STORE4`. */
  readonly dialect: string;
  readonly seed: string;
  readonly trailerSignature: string;
  readonly signed: string;
}

const sha = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: Uint8Array, text: string): string => createHmac('sha256', key).update(text).digest('hex');

/** The content in chunks, with the empty one at the end. */
function pieces(spec: RequestSpec): Uint8Array[] {
  const content = typeof spec.body === 'string' ? Buffer.from(spec.body) : (spec.body ?? new Uint8Array());
  const size = spec.chunkSize ?? 65_536;
  const cut: Uint8Array[] = [];
  for (let at = 0; at < content.length; at += size) cut.push(content.subarray(at, at + size));
  return [...cut, new Uint8Array()];
}

function assemble(spec: RequestSpec, chunks: Chunk[], lines: string[]): Uint8Array {
  const out: (Uint8Array | string)[] = [];
  for (const { size, signature, data } of spec.tamper?.chunks?.(chunks) ?? chunks) {
    out.push(signature === undefined ? `${size}\r\n` : `${size};chunk-signature=${signature}\r\n`);
    if (data.length > 0) out.push(data, '\r\n');
  }
  for (const line of spec.tamper?.trailerLines?.(lines) ?? lines) out.push(`${line}\r\n`);
  out.push('\r\n');
  return Buffer.concat(out.map((part) => Buffer.from(part as Uint8Array)));
}

export function encodeSigned(frame: SignedFrame): Uint8Array {
  const { spec, key, timestamp, scope, dialect } = frame;
  let previous = frame.seed;
  const chunks = pieces(spec).map((data): Chunk => {
    previous = hmac(
      key,
      `${dialect}-HMAC-SHA256-PAYLOAD\n${timestamp}\n${scope}\n${previous}\n${sha('')}\n${sha(data)}`,
    );
    return { size: data.length.toString(16), signature: previous, data };
  });
  const lines = frame.trailers.map(([name, value]) => `${name}:${value}`);
  if (frame.signed === 'streaming-trailer') {
    const hash = sha(lines.map((line) => `${line}\n`).join(''));
    const text = `${dialect}-HMAC-SHA256-TRAILER\n${timestamp}\n${scope}\n${previous}\n${hash}`;
    lines.push(`${frame.trailerSignature}:${hmac(key, text)}`);
  }
  return assemble(spec, chunks, frame.signed === 'streaming-trailer' ? lines : []);
}

export function encodeUnsigned({ spec, trailers }: Frame): Uint8Array {
  const chunks = pieces(spec).map((data) => ({ size: data.length.toString(16), signature: undefined, data }));
  return assemble(
    spec,
    chunks,
    trailers.map(([name, value]) => `${name}:${value}`),
  );
}
