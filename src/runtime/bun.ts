/**
 * The gateway on Bun, with the Node listener on Bun's `node:net`, because `Bun.serve` (1.4) changes what S3 clients
 * depend on. It rewrites dot segments and `\` before the handler sees the target, joins repeated headers, sends every
 * longer stream in chunks without the Content-Length that it was given, and sends 100 Continue before the handler reads
 * the body.
 */
export { type ServeOptions, type Serving, serve } from './node.ts';
