/** The script that has the Durable Object alone. Bundled for workerd. */
export { SluiceMetadata } from '../../src/runtime/cloudflare.ts';

export default { fetch: () => new Response(undefined, { status: 404 }) };
