import type { Handle, ServerInit } from '@sveltejs/kit/hooks';
import { openStorage } from './storage.ts';

export const init: ServerInit = async () => {
  await openStorage();
};

const forms = ['', 'application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain'];

/** Forms of other sites reach only the gateway, which checks signatures and policies: SvelteKit's own check has no exception for a path. */
export const handle: Handle = ({ event, resolve }) => {
  const { request, url } = event;
  const type = request.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const isForm = request.method !== 'GET' && request.method !== 'HEAD' && forms.includes(type);
  const isStorage = url.pathname === '/s3' || url.pathname.startsWith('/s3/');
  if (isForm && !isStorage && request.headers.get('origin') !== url.origin)
    return new Response('Forms of other sites are forbidden', { status: 403 });
  return resolve(event);
};
