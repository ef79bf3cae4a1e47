/**
 * The gateway on Deno, with the Node listener. `Deno.serve` (2.9) keeps the raw target and Content-Length, but it joins repeated headers,
 * sends 100 Continue before the handler reads the body, and with Request and Response objects a small GET costs 1.7 times and a small
 * PUT twice the CPU.
 *
 * Differences from Node: certificates are read once, at the start, and a client that half-closes inside a body is disconnected without
 * a reply.
 */
export { type ServeOptions, type Serving, serve } from './node.ts';
