/**
 * The gateway on Deno, with the Node listener on Deno's `node:net`. `Deno.serve` (2.9) keeps the raw target and
 * Content-Length, but it joins repeated headers, sends 100 Continue before the handler reads the body, and with Request
 * and Response objects a small GET costs 1.7 times and a small PUT twice the CPU.
 */
export { type ServeOptions, type Serving, serve } from './node.ts';
