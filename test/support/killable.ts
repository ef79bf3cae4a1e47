/** A gateway over two Ceph clusters, `a` and `b`, in a process that a test kills and restarts on the same data. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { fsck } from '../simulation/kill-rounds.ts';
import type { CephCluster } from './engines/ceph.ts';
import { type Answer, type LoadClient, loadClient, pathOf } from './load-client.ts';
import { startServer, type TestServer } from './server.ts';

/** Allows for the lease of the killed process, which must expire (15 s) before another process continues. */
export const patience = { timeout: 180_000, interval: 100 };

const common = {
  SVC_DATA_BACKEND: 'cluster-pool',
  SVC_GC_GRACE: '0s',
  SVC_GC_INTERVAL: '50ms',
  SVC_REBALANCE_INTERVAL: '50ms',
  SVC_INTENT_TTL: '1s',
  SVC_BUCKET_SHARDS: '4',
  SVC_LOG_LEVEL: 'WARN',
};

type Settings = Readonly<Record<string, string>>;

export class Killable implements AsyncDisposable {
  readonly bucket = 'bucket';
  readonly dataDir: string;
  readonly settings: Settings;
  readonly #clusters: readonly CephCluster[];
  readonly #namespace: string;
  #running: { readonly server: TestServer; readonly client: LoadClient } | undefined;

  private constructor(
    clusters: readonly CephCluster[],
    { namespace, dataDir, settings }: { namespace: string; dataDir: string; settings: Settings },
  ) {
    this.#clusters = clusters;
    this.#namespace = namespace;
    this.dataDir = dataDir;
    const pools = clusters.map(({ conf }, i) => ({ id: 'ab'[i], conf, pool: 'chunks', namespace }));
    this.settings = { ...common, SVC_POOL_CLUSTERS: JSON.stringify(pools), ...settings };
  }

  /** @param namespace that no other test uses @param settings beside those that this file sets */
  static async begin(
    clusters: readonly CephCluster[],
    namespace: string,
    settings: Settings = {},
  ): Promise<Killable> {
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-kill-'));
    const gateway = new Killable(clusters, { namespace, dataDir, settings });
    await gateway.start();
    await gateway.client.expect({ method: 'PUT', path: pathOf(gateway.bucket) });
    return gateway;
  }

  get client(): LoadClient {
    if (this.#running === undefined) throw new Error('the gateway does not run');
    return this.#running.client;
  }

  async start(more: Settings = {}): Promise<void> {
    const env = { ...this.settings, ...more };
    const server = await startServer({ dataDir: this.dataDir, env, startMs: 90_000 });
    this.#running = { server, client: loadClient(server.url, server.credentials.root, 128) };
  }

  async kill(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.server.kill9();
    running?.client.close();
  }

  async admin(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const { text } = await this.client.expect({ method, path: `/admin/v1${path}`, ...sent }, [200, 202]);
    return JSON.parse(text) as Record<string, unknown>;
  }

  async put(key: string, body: Uint8Array, headers: Settings = {}): Promise<void> {
    await this.client.expect({
      method: 'PUT',
      path: pathOf(this.bucket, key),
      body: Buffer.from(body),
      headers,
    });
  }

  get(key: string): Promise<Answer> {
    return this.client.send({ path: pathOf(this.bucket, key) });
  }

  /** Expects every object with its exact bytes. */
  async expectHeld(held: ReadonlyMap<string, Uint8Array>): Promise<void> {
    for (const [key, body] of held) {
      const got = await this.get(key);
      expect([key, got.status, Buffer.compare(got.body, body)]).toEqual([key, 200, 0]);
    }
  }

  /** The chunks in both clusters, or in one, as Ceph lists them. */
  async chunks(on: 'a' | 'b' | 'ab' = 'ab'): Promise<number> {
    const listed = await Promise.all(
      [...on].map((id) =>
        this.#clusters['ab'.indexOf(id)]?.rados('-p', 'chunks', '-N', this.#namespace, 'ls'),
      ),
    );
    return listed
      .join('\n')
      .split('\n')
      .filter((line) => line !== '' && line !== 'installation.json').length;
  }

  /** Waits for the sweep and gc, and expects that exactly the chunks that rows name are stored. */
  async expectSound(): Promise<void> {
    await vi.waitFor(
      async () => {
        const { code, text, summary } = await fsck(this.dataDir, this.settings);
        expect([code, summary.leaving, summary.stored], text).toEqual([0, 0, summary.named]);
      },
      { ...patience, interval: 1000 },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.dataDir, { recursive: true, force: true });
  }
}
