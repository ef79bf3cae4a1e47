/** `SignatureDoesNotMatch`, with the texts that a client needs to find its mistake. */

import { maskLines } from '../../base/text/mask-secrets.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';

interface Mismatch {
  readonly accessKey: string;
  readonly signature: string;
  readonly stringToSign: string;
  readonly canonicalRequest?: string;
  /** Whether the signature covers `accept-encoding`, which proxies rewrite. */
  readonly isEncodingSigned?: boolean;
  /** Whether the runtime may have rewritten the path that was signed. */
  readonly isRewritten?: boolean | undefined;
}

/** Longer texts are sent without their bytes, so that a reply cannot grow far beyond its request. */
const bytesMax = 8192;

/** Never carries the secret, nor the signature that would have been right. */
export function mismatch({
  accessKey,
  signature,
  stringToSign,
  canonicalRequest,
  isEncodingSigned = false,
  isRewritten = false,
}: Mismatch): Refusal {
  const elements: Record<string, string> = {
    AWSAccessKeyId: accessKey,
    StringToSign: withoutSecrets(stringToSign),
    SignatureProvided: signature,
    ...formatBytes('StringToSignBytes', withoutSecrets(stringToSign)),
  };
  if (canonicalRequest !== undefined) {
    const text = withoutSecrets(canonicalRequest);
    elements['CanonicalRequest'] = text;
    Object.assign(elements, formatBytes('CanonicalRequestBytes', text));
  }
  const hints = [...(isEncodingSigned ? [encodingHint] : []), ...(isRewritten ? [pathHint] : [])];
  return fail('SignatureDoesNotMatch', {
    elements,
    ...(hints.length === 0 ? {} : { message: [usual, ...hints].join(' ') }),
  });
}

const usual =
  'The request signature we calculated does not match the signature you provided. Check your key and signing method.';
const encodingHint =
  'The signature covers the header accept-encoding, which proxies rewrite: sign without it.';
const pathHint =
  'The framework around this gateway rewrites the segments . and .. of a path: a key that has them needs a handler with the raw path.';

/** Masks secrets: the signed text may contain a customer's encryption key or a session token, and clients log error bodies. */
const withoutSecrets = (text: string): string => maskLines(text, '***');

const utf8 = new TextEncoder();

function formatBytes(name: string, text: string): Record<string, string> {
  if (text.length > bytesMax) return {};
  const bytes = Array.from(utf8.encode(text), (byte) => byte.toString(16).padStart(2, '0'));
  return { [name]: bytes.join(' ') };
}
