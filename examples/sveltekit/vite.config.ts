import adapter from '@sveltejs/adapter-node';
import { sveltekit } from '@sveltejs/kit/vite';
import { defineConfig } from 'vite';

export default defineConfig({
  // S3 clients send no Origin, which SvelteKit takes for another site's form when an object is a text: src/hooks.server.ts checks the other paths.
  plugins: [await sveltekit({ adapter: adapter(), csrf: { trustedOrigins: ['*'] } })],
  // Node loads it, because its native parts do not fit into a bundle.
  ssr: { external: ['sluice'] },
});
