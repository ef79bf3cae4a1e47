/**
 * The gateway on Deno: the Node listener. `Deno.serve` (2.9) keeps the raw target and Content-Length, but it
 * joins repeated headers, says 100 Continue before anybody asked for the body, and with Request and Response
 * objects a small GET costs 1.7 times and a small PUT twice the CPU.
 *
 * What is different from Node: certificates are read once, at the start, and a client that half-closes inside
 * a body is cut without being told.
 */
export { type ServeOptions, type Serving, serve } from './node.ts';
