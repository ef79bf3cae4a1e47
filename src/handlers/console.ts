/**
 * The console: one page for all its addresses, and its assets. It needs no authentication: what it shows it reads from
 * the operator API.
 */
import { readToken } from '../auth/session/logins.ts';
import { fail } from '../base/errors.ts';
import { toHex } from '../base/text/hex.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import type { HeaderPair, Reply } from '../protocol/reply.ts';
import type { Wire } from '../protocol/wire.ts';
import type { ConsolePlace } from './handler.ts';

const assetPrefix = '/console/assets/';
const assetName = /^[A-Za-z0-9_-]{1,64}\.(js|css|svg)$/;
const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
/** The user is one segment of the path, copied as it was sent. */
const billing = /^\/iam\/users\/([^/]{1,1024})\/billing$/;

export const isConsolePath = (path: string): boolean =>
  path === '/console' || path.startsWith('/console/') || billing.test(path);

export async function serveConsole(
  ctx: Context,
  wire: Wire,
  { path, basePath }: ConsolePlace,
): Promise<Reply> {
  if (wire.method !== 'GET' && wire.method !== 'HEAD')
    throw fail('MethodNotAllowed', { headers: { Allow: 'GET, HEAD' } });
  const user = billing.exec(path)?.[1];
  if (user !== undefined) return redirect(`${basePath}/console/iam/users/${user}/billing`);
  if (path === '/console') return redirect(`${basePath}/console/`);
  if (path.startsWith(assetPrefix)) return serveAsset(ctx, wire, path.slice(assetPrefix.length));
  const page = await ctx.consoleAssets?.page();
  if (page === undefined)
    throw fail('NotFound', 'This gateway was installed without its console: run npm run build:console.');
  return servePage(ctx, wire, { page, basePath });
}

const redirect = (to: string): Reply => ({
  status: 302,
  headers: [
    ['Location', to],
    ['Cache-Control', 'no-store'],
  ],
});

async function serveAsset({ consoleAssets }: Context, { headers }: Wire, name: string): Promise<Reply> {
  const extension = assetName.exec(name)?.[1];
  const gzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers.get('accept-encoding') ?? '');
  const asset = extension === undefined ? undefined : await consoleAssets?.read(name, { gzip });
  if (asset === undefined || extension === undefined)
    throw fail('NotFound', `There is nothing at ${assetPrefix}${name}.`);
  return {
    status: 200,
    headers: [
      ['Content-Type', types[extension] ?? ''],
      ['Content-Length', String(asset.bytes.length)],
      // The name changes with the content.
      ['Cache-Control', 'public, max-age=31536000, immutable'],
      ['Vary', 'Accept-Encoding'],
      ['X-Content-Type-Options', 'nosniff'],
      ['Cross-Origin-Resource-Policy', 'same-origin'],
      ...(asset.encoding === undefined ? [] : [['Content-Encoding', asset.encoding] as const]),
    ],
    body: asset.bytes,
  };
}

const nonceBytes = 16;

function servePage(
  { config, random }: Context,
  wire: Wire,
  { page, basePath }: { readonly page: string; readonly basePath: string },
): Reply {
  const nonce = toHex(random.bytes(nonceBytes));
  const storage = storageOrigin(config, wire);
  // A page without a cookie shows the form at once, instead of asking who is logged in and being refused.
  const login = readToken(wire) === undefined ? 'none' : 'perhaps';
  const values: Readonly<Record<string, string>> = { nonce, storage, login, base: basePath };
  const body = page.replace(/\{(nonce|storage|login|base)\}/g, (_, name: string) =>
    escapeHtml(values[name] ?? ''),
  );
  return {
    status: 200,
    headers: [
      ['Content-Type', 'text/html; charset=utf-8'],
      ['Cache-Control', 'no-store'],
      ['Content-Security-Policy', contentSecurityPolicy(nonce, storage)],
      ...pageHeaders,
    ],
    body,
  };
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

/**
 * Where pages find the storage protocol; '' for the origin of the page. The port of SVC_LISTEN is 0 where the system chose one, which a
 * request of the other listener cannot know.
 */
function storageOrigin(
  { SVC_CONSOLE_STORAGE_URL: stated, SVC_ADMIN_LISTEN: admin, SVC_LISTEN: storage }: Config,
  { headers, secure }: Wire,
): string {
  if (stated !== undefined) return stated;
  const host = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?=:\d+$|$)/i.exec(headers.get('host') ?? '')?.[0];
  if (admin === undefined || host === undefined) return '';
  return `${secure ? 'https' : 'http'}://${host}:${storage.port}`;
}

/**
 * Scripts run by the nonce of this reply, and what they import: `'self'` would let an object that a tenant stored be a script, because
 * objects have the same origin. Previews are images and media from the storage protocol, and documents in a sandboxed frame.
 */
function contentSecurityPolicy(nonce: string, storage: string): string {
  const from = storage === '' ? "'self'" : `'self' ${storage}`;
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    `style-src 'nonce-${nonce}'`,
    `img-src ${from} blob:`,
    `media-src ${from} blob:`,
    `frame-src ${from} blob:`,
    `connect-src ${from}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

const features = [
  'accelerometer',
  'autoplay',
  'camera',
  'display-capture',
  'encrypted-media',
  'geolocation',
  'gyroscope',
  'microphone',
  'midi',
  'payment',
  'usb',
  'xr-spatial-tracking',
];

const pageHeaders: readonly HeaderPair[] = [
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['Permissions-Policy', features.map((name) => `${name}=()`).join(', ')],
  ['Referrer-Policy', 'no-referrer'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
];
