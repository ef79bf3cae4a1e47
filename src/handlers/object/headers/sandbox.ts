/**
 * Isolates documents that clients stored from the operators' API of the same host. A page that a tenant stored would otherwise run with
 * the log-in of an operator who opens it. With this header a browser gives it an origin of its own, to which cookies do not go.
 */

import type { HeaderPair } from '../../../protocol/reply/reply.ts';
import type { Authorized } from '../../../request/request.ts';

const sandbox: readonly HeaderPair[] = [
  ['Content-Security-Policy', 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads'],
];
const none: readonly HeaderPair[] = [];

/**
 * Values that a browser does not show as a document with scripts and does not run as a worker, which this header forbids too. The whole value must match: of a list of types browsers take the last
 * one, and an unknown one they may take for HTML.
 */
const inert =
  /^(?:binary\/octet-stream|application\/(?:octet-stream|json|pdf|zip|gzip|x-(?!javascript|ecmascript)[\w.-]+|vnd\.[\w.-]+)|image\/(?:png|jpeg|gif|webp|avif|bmp)|(?:audio|video|font)\/[\w.-]+|text\/(?:plain|csv))(?:; ?charset=[\w-]+)?$/i;

/** Other hosts get no cookies of this one. The port of `SVC_ADMIN_LISTEN` is another origin, but cookies do not distinguish ports. */
const sharesCookies = ({ virtual }: Authorized): boolean => virtual === undefined;

export const sandboxHeader = (request: Authorized, contentType: string): readonly HeaderPair[] =>
  inert.test(contentType) || !sharesCookies(request) ? none : sandbox;
