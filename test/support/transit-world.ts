/** A gateway whose key provider is a real transit engine, behind a proxy that counts and fails. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { SettingName } from '../../src/config.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { noSinkServer, type SinkServer, startSinkServer } from './engines/sink-servers.ts';
import { type GatewayWorld, openGateway, operator } from './gateway.ts';
import { type KeyProxy, openKeyProxy } from './key-proxy.ts';

/** Why no engine can run here. */
export const noTransit = noSinkServer('transit');
/** The engine of this file of tests. */
export let server: SinkServer;
let directory: string;

export async function startTransit(): Promise<AsyncDisposable> {
  server = await startSinkServer('transit');
  directory = await mkdtemp(join(tmpdir(), 'sluice-transit-'));
  return server;
}

export const secretFile = async (text: string): Promise<string> => {
  const file = join(directory, randomBytes(6).toString('hex'));
  await writeFile(file, text, { mode: 0o600 });
  return file;
};

/** Asks the engine as its operator. */
export async function engine(path: string, body?: object, namespace = ''): Promise<Record<string, unknown>> {
  const reply = await fetch(`http://127.0.0.1:${server.port}/v1/transit/${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'x-vault-token': 'root', 'x-vault-namespace': namespace },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`${reply.status} ${text}`);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}
export const frame = (path: string) =>
  fetch(`http://127.0.0.1:${server.port}/frame/${path}`, { method: 'POST' });

/** A name of its own, so that tests do not share keys. */
export async function makeKey(options: object = {}, namespace = ''): Promise<string> {
  const name = `k${randomBytes(6).toString('hex')}`;
  await engine(`keys/${name}`, options, namespace);
  return name;
}

const appRole = async () => ({
  SVC_TRANSIT_AUTH: 'approle',
  SVC_TRANSIT_ROLE_ID: 'role',
  SVC_TRANSIT_SECRET_ID_FILE: await secretFile('secret\n'),
});

export interface TransitWorld extends GatewayWorld {
  readonly proxy: KeyProxy;
  readonly logged: readonly unknown[];
  rotate(bucket?: string): Promise<string>;
}

export async function openTransitWorld(
  settings: Partial<Record<SettingName, string>> = {},
  options: Parameters<typeof openGateway>[0] = {},
): Promise<TransitWorld> {
  const proxy = await openKeyProxy(server.port);
  const logged: unknown[] = [];
  const world = await openGateway({
    telemetry: { ...silentTelemetry, log: (...line) => void logged.push(line) },
    ...options,
    settings: {
      SVC_KEY_PROVIDER: 'transit',
      SVC_TRANSIT_ADDR: proxy.url,
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_KEY_ACCOUNTS: JSON.stringify({ 'forbidden-key': ['*'], absent: ['*'] }),
      ...(await appRole()),
      ...settings,
    },
  });
  await world.client.put('/bucket');
  return Object.assign(world, {
    proxy,
    logged,
    async rotate(bucket = 'bucket') {
      const answer = await world
        .as({ credential: operator })
        .post(`/admin/v1/buckets/${bucket}/signing-key/rotate`);
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      return JSON.parse(answer.text).secret_access_key as string;
    },
    async [Symbol.asyncDispose]() {
      await world.close();
      await proxy[Symbol.asyncDispose]();
    },
  });
}

/** The status of `/readyz`, and of the provider in it. */
export async function keysOf(world: GatewayWorld) {
  const { status, text } = await world.as({ credential: operator }).get('/readyz');
  const { components } = JSON.parse(text) as {
    components: readonly { readonly component: string; readonly status: string }[];
  };
  return [status, components.find(({ component }) => component === 'keys')?.status];
}

export const refused = ({ status, code }: { status: number; code: string | undefined }) => [status, code];
