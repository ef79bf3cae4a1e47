/** Continuation tokens: base64url of JSON in our own format; literal markers of older clients work too. */
import { fail } from '../../errors/refusal.ts';
import { assertPlace } from './key.ts';

export interface Token {
  /** The last key or common prefix of the page before. */
  readonly after: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export const writeToken = (token: Token): string =>
  btoa(String.fromCharCode(...encoder.encode(JSON.stringify(token))))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** @throws InvalidArgument for an empty token; any other text than a token is taken as a literal marker */
export function readToken(raw: string | undefined): Token | undefined {
  if (raw === undefined) return undefined;
  if (raw === '') {
    throw fail('InvalidArgument', {
      message: 'The continuation token provided is incorrect',
      elements: { ArgumentName: 'continuation-token', ArgumentValue: raw },
    });
  }
  const token = decode(raw) ?? { after: raw };
  assertPlace(token.after, 'continuation-token');
  return token;
}

function decode(raw: string): Token | undefined {
  try {
    const bytes = Uint8Array.from(atob(raw.replaceAll('-', '+').replaceAll('_', '/')), (char) =>
      char.charCodeAt(0),
    );
    const value: unknown = JSON.parse(decoder.decode(bytes));
    if (typeof value === 'object' && value !== null && 'after' in value && typeof value.after === 'string') {
      return { after: value.after };
    }
  } catch {
    // Not base64url, not UTF-8 or not JSON: a literal marker.
  }
  return undefined;
}
