/**
 * Finds the CORS rule that applies to a cross-origin request. A pattern has at most one `*`, so comparing both ends of the text
 * suffices, without backtracking.
 */
import type { Cors, CorsRule } from './families.ts';

/** A cross-origin request, or the preflight request before one. */
export interface CrossOrigin {
  readonly origin: string;
  readonly method: string;
  /** Names of its headers, in lower case. */
  readonly headers: readonly string[];
}

/** The first rule that allows the origin, the method and every header. */
export const findCorsRule = ({ CORSRule }: Cors, asked: CrossOrigin): CorsRule | undefined =>
  CORSRule.find((rule) => allows(rule, asked));

const allows = (
  { AllowedOrigin, AllowedMethod, AllowedHeader }: CorsRule,
  { origin, method, headers }: CrossOrigin,
): boolean =>
  AllowedMethod.includes(method) &&
  AllowedOrigin.some((pattern) => fits(pattern, origin)) &&
  headers.every((name) => AllowedHeader.some((pattern) => fits(pattern.toLowerCase(), name)));

/** `*` matches any text, the empty one too. */
function fits(pattern: string, text: string): boolean {
  const star = pattern.indexOf('*');
  if (star < 0) return pattern === text;
  const end = pattern.length - star - 1;
  return (
    text.length >= star + end &&
    text.startsWith(pattern.slice(0, star)) &&
    text.endsWith(pattern.slice(star + 1))
  );
}

/** A redirect target; absent parts stay as in the request. */
