/** A gateway whose key provider is a double of the AWS KMS API. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { SettingName } from '../../src/config.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { provider } from './encryption.ts';
import { type GatewayWorld, openGateway, operator } from './gateway.ts';
import { type KmsDouble, openKmsDouble, region, staticPair } from './kms-double.ts';

/** A file with this text. */
export const kmsFile = async (text: string): Promise<string> => {
  const path = join(await mkdtemp(join(tmpdir(), 'sluice-kms-')), randomBytes(6).toString('hex'));
  await writeFile(path, text, { mode: 0o600 });
  return path;
};

export interface KmsWorld extends GatewayWorld {
  readonly double: KmsDouble;
  /** The ARN of `alias/own`, which every account may use. */
  readonly own: string;
  readonly logged: readonly unknown[];
  rotate(named?: { readonly bucket: string; readonly keyId: string }): Promise<string>;
  put(at: string, keyId?: string): Promise<readonly [number, string | undefined]>;
  get(at: string): Promise<readonly [number, string | undefined]>;
}

export const outcomeOf = ({ status, code }: { status: number; code: string | undefined }) =>
  [status, code] as const;

export async function openKmsWorld(
  settings: Partial<Record<SettingName, string>> = {},
  options: Parameters<typeof openGateway>[0] = {},
): Promise<KmsWorld> {
  const double = await openKmsDouble();
  double.makeKey('alias/main');
  const own = double.makeKey('alias/own');
  const logged: unknown[] = [];
  const world = await openGateway({
    telemetry: { ...silentTelemetry, log: (...line) => void logged.push(line) },
    ...options,
    settings: {
      SVC_KEY_PROVIDER: 'cloud-kms',
      SVC_KMS_ENDPOINT: double.proxy.url,
      SVC_KMS_REGION: region,
      SVC_KMS_ACCESS_KEY: staticPair.accessKey,
      SVC_KMS_SECRET_KEY_FILE: await kmsFile(staticPair.secretKey),
      SVC_KMS_DEFAULT_KEY_ID: 'alias/main',
      SVC_KEY_ACCOUNTS: JSON.stringify({ [own]: ['*'], [elsewhere]: ['*'] }),
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_DEK_CACHE_TTL: '30s',
      ...settings,
    },
  });
  await world.client.put('/bucket');
  return Object.assign(world, {
    double,
    own,
    logged,
    async rotate({ bucket = 'bucket', keyId }: { readonly bucket?: string; readonly keyId?: string } = {}) {
      const admin = world.as({ credential: operator });
      const body = keyId === undefined ? {} : { body: JSON.stringify({ key_id: keyId }) };
      const answer = await admin.post(`/admin/v1/buckets/${bucket}/signing-key/rotate`, body);
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      return JSON.parse(answer.text).secret_access_key as string;
    },
    put: async (at: string, keyId?: string) =>
      outcomeOf(await world.client.put(at, { body: 'text', headers: provider(keyId) })),
    get: async (at: string) => outcomeOf(await world.client.get(at)),
    async [Symbol.asyncDispose]() {
      await world.close();
      await double[Symbol.asyncDispose]();
    },
  });
}

export const elsewhere = 'arn:aws:kms:us-east-9:111122223333:key/elsewhere';
export const served = [200, ''];
export const unavailable = [503, 'KMSUnavailable'];
