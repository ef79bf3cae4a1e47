/** The store of several gateways: a data directory, with metadata in it or on a real engine started for the test. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noCassandraOfOurs, type Ring, replicatedOver, startNode } from '../support/engines/cassandra.ts';
import { noOwnTikv, startOwnTikv } from '../support/engines/tikv.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';

export type StoreKind = 'embedded' | 'wide-column' | 'ordered-kv';

/** The reason why a kind of store cannot run here. */
export const missing: Readonly<Record<StoreKind, string | undefined>> = {
  embedded: undefined,
  'wide-column': noCassandraOfOurs,
  'ordered-kv': noOwnTikv,
};

export interface SharedStore extends AsyncDisposable {
  readonly kind: StoreKind;
  readonly dataDir: string;
  /** The settings of gateways and fsck. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts one more gateway over it. @param startMs longer than usual for nodes that are slow to create a schema */
  gateway(env?: Readonly<Record<string, string>>, startMs?: number): Promise<TestServer>;
  /** Pauses and resumes the engine; absent where the gateways themselves are the engine. */
  readonly engine?: { pause(): void; resume(): void };
}

interface Engine extends Pick<SharedStore, 'env' | 'engine'>, AsyncDisposable {}

const onCassandra = (hosts: readonly string[]) => ({
  SVC_META_BACKEND: 'wide-column',
  SVC_WIDECOL_HOSTS: hosts.join(','),
  SVC_WIDECOL_REPLICATION: replicatedOver(hosts),
});

const engines: Readonly<Record<StoreKind, () => Promise<Engine>>> = {
  embedded: async () => ({ env: {}, async [Symbol.asyncDispose]() {} }),
  async 'wide-column'() {
    const node = await startNode();
    return {
      env: onCassandra(node.hosts),
      engine: node,
      [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
    };
  },
  async 'ordered-kv'() {
    const tikv = await startOwnTikv();
    return {
      env: { SVC_META_BACKEND: 'ordered-kv', SVC_KV_PD_ENDPOINTS: tikv.endpoints.join(',') },
      engine: { pause: () => tikv.signal('SIGSTOP'), resume: () => tikv.signal('SIGCONT') },
      [Symbol.asyncDispose]: () => tikv[Symbol.asyncDispose](),
    };
  },
};

export const sharedStore = async (kind: StoreKind): Promise<SharedStore> =>
  storeOn(kind, await engines[kind]());

/** A store in a keyspace of a ring that is not stopped with it. */
export const sharedRing = ({ hosts }: Pick<Ring, 'hosts'>, keyspace: string): SharedStore =>
  storeOn('wide-column', {
    env: { ...onCassandra(hosts), SVC_WIDECOL_KEYSPACE: keyspace },
    async [Symbol.asyncDispose]() {},
  });

/** A store on a TiKV that the test has started. */
export const sharedTikv = ({ endpoints }: { readonly endpoints: readonly string[] }): SharedStore =>
  storeOn('ordered-kv', {
    env: { SVC_META_BACKEND: 'ordered-kv', SVC_KV_PD_ENDPOINTS: endpoints.join(',') },
    async [Symbol.asyncDispose]() {},
  });

function storeOn(kind: StoreKind, { env: settings, engine, ...rest }: Engine): SharedStore {
  const own = mkdtempSync(join(tmpdir(), `sluice-shared-${randomBytes(4).toString('hex')}-`));
  const dataDir = join(own, 'data');
  mkdirSync(dataDir);
  const credentials = join(own, 'credentials.json');
  writeFileSync(credentials, JSON.stringify(Object.values(testCredentials)), { mode: 0o600 });
  const env = {
    ...settings,
    SVC_BUCKET_SHARDS: '4',
    SVC_CREDENTIALS_FILE: credentials,
  };
  return {
    kind,
    dataDir,
    env,
    gateway: (more = {}, startMs = undefined) =>
      startServer({ dataDir, env: { ...env, ...more }, ...(startMs === undefined ? {} : { startMs }) }),
    ...(engine === undefined ? {} : { engine }),
    async [Symbol.asyncDispose]() {
      await rest[Symbol.asyncDispose]();
      rmSync(own, { recursive: true, force: true });
    },
  };
}
