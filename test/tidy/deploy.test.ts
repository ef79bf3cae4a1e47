/** `deploy/` and the docs: files parse and agree, images are pinned, and every named setting exists. */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configWith } from '../../src/config/read/read-config.ts';
import { settings } from '../../src/config.ts';

const root = join(import.meta.dirname, '../..');
const deploy = join(root, 'deploy');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const filesIn = (directory: string): string[] =>
  readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' }).map((name) =>
    join(directory, name),
  );

interface Service {
  readonly image?: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: readonly string[] | Readonly<Record<string, unknown>>;
  readonly network_mode?: string;
  readonly volumes?: readonly string[];
  readonly secrets?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
}
interface Compose {
  readonly include?: readonly string[];
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes?: Readonly<Record<string, unknown>>;
  readonly secrets?: Readonly<Record<string, { readonly file: string }>>;
}

const load = (path: string): Compose => parse(readFileSync(path, 'utf8'), { merge: true }) as Compose;

/** A file and the files that it includes. */
function whole(path: string): Required<Pick<Compose, 'services' | 'volumes' | 'secrets'>> {
  const own = load(path);
  const others = (own.include ?? []).map((name) => whole(join(dirname(path), name)));
  const all = [...others, own];
  return {
    services: Object.assign({}, ...all.map(({ services }) => services)),
    volumes: Object.assign({}, ...all.map(({ volumes }) => volumes)),
    secrets: Object.assign({}, ...all.map(({ secrets }) => secrets)),
  };
}

const composes = readdirSync(deploy).filter((name) => name.endsWith('.yaml'));
const engines = readdirSync(join(deploy, 'engines')).map((name) => join('engines', name));

test('there is one file for each pair of a metadata and a data backend', () => {
  expect(composes.toSorted()).toEqual([
    'cassandra.yaml',
    'ceph-cassandra.yaml',
    'ceph-tikv.yaml',
    'tikv.yaml',
  ]);
});

test.each([...composes, ...engines])('%s names services, volumes and files that exist', (name) => {
  const { services, volumes, secrets } = whole(join(deploy, name));
  for (const [service, { depends_on: needs = [], network_mode: network = '', ...rest }] of Object.entries(
    services,
  )) {
    const named = Array.isArray(needs) ? needs : Object.keys(needs);
    if (network.startsWith('service:')) named.push(network.slice('service:'.length));
    for (const other of named) expect(Object.keys(services), `${service} needs ${other}`).toContain(other);
    for (const volume of rest.volumes ?? [])
      expect(Object.keys(volumes), `${service} mounts ${volume}`).toContain(volume.split(':')[0]);
    for (const secret of rest.secrets ?? [])
      expect(Object.keys(secrets), `${service} uses the secret ${secret}`).toContain(secret);
    if (rest.build !== undefined) expect(existsSync(join(root, rest.build.dockerfile))).toBe(true);
    else expect(rest.image, `${service} is pinned`).toMatch(/^[a-z/]+:v?\d+\.\d+\.\d+$/);
  }
});

describe('with the secrets that the script makes', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'sluice-deploy-'));
    copyFileSync(join(deploy, 'secrets.sh'), join(directory, 'secrets.sh'));
    execFileSync(join(directory, 'secrets.sh'), { stdio: 'ignore' });
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test.each(composes)('the gateway of %s finds no fault in its settings', (name) => {
    const { services, secrets } = whole(join(deploy, name));
    const { environment = {}, secrets: told = [] } = services['gateway'] as Service;
    const made = told.map((secret) => [
      `/run/secrets/${secret}`,
      join(directory, secrets[secret]?.file ?? ''),
    ]);
    const places = new Map(made as [string, string][]);
    const env = Object.fromEntries(
      Object.entries(environment).map(([setting, value]) => [setting, places.get(value) ?? value]),
    );
    expect(
      Object.keys(environment)
        .filter((each) => environment[each] !== env[each])
        .toSorted(),
    ).toEqual(['SVC_CREDENTIALS_FILE', 'SVC_MASTER_KEY_FILE']);
    const args = [join(root, 'src/runtime/cli.ts'), 'config'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      env: { PATH: process.env['PATH'], ...env },
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    for (const [setting, value] of Object.entries(env)) {
      if (setting !== 'SVC_POOL_CLUSTERS') expect(stdout).toContain(value);
    }
    const config = configWith(env);
    expect(['wide-column', 'ordered-kv']).toContain(config.SVC_META_BACKEND);
    expect(['file', 'cluster-pool']).toContain(config.SVC_DATA_BACKEND);
    // The mount points are the paths in the settings.
    const mounts = (services['gateway']?.volumes ?? []).map((volume) => volume.split(':')[1] ?? '');
    const looked = [config.SVC_DATA_DIR, ...config.SVC_POOL_CLUSTERS.map(({ conf }) => conf)];
    for (const path of looked.filter((each) => each !== undefined))
      expect(
        mounts.some((mount) => path.startsWith(mount)),
        `${path} is mounted`,
      ).toBe(true);
  });
});

test('what the images run and copy exists, and Ceph’s has the pool that the gateway writes to', () => {
  for (const name of ['Dockerfile', 'ceph.Dockerfile']) {
    const lines = read(join('deploy', name)).split('\n');
    const copied = lines
      // A stage copies what another has built.
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(/\s+/).slice(1, -1));
    expect(copied).not.toEqual([]);
    for (const path of copied) expect(existsSync(join(root, path)), path).toBe(true);
    const run = lines.filter((line) => /^(ENTRYPOINT|CMD|RUN) /.test(line)).join(' ');
    for (const [, path = ''] of run.matchAll(/(?<![\w/])\/?((?:engines|src|console)\/[\w./-]+)/g))
      expect(existsSync(join(root, path)), path).toBe(true);
  }
  const [, pools = ''] = /start\.sh \/ceph \d+ ([\w ]+) &&/.exec(read('deploy/ceph.Dockerfile')) ?? [];
  for (const name of composes) {
    const { SVC_POOL_CLUSTERS } = whole(join(deploy, name)).services['gateway']?.environment ?? {};
    for (const { pool, user } of JSON.parse(SVC_POOL_CLUSTERS ?? '[]')) {
      expect(pools.split(' ')).toContain(pool);
      expect(read('engines/ceph/start.sh')).toContain(`add_key ${user} `);
    }
  }
});

/** What each image has; Ceph's own check is run in `ceph/shared-metadata.test.ts`. */
const programsOf: Readonly<Record<string, readonly string[]>> = {
  cassandra: ['cqlsh'],
  ceph: ['test', 'ceph'],
};

test('health checks use programs of the images, for services that others depend on', () => {
  const checked = new Set<string>();
  for (const name of composes) {
    const { services } = whole(join(deploy, name));
    for (const { depends_on: needs = {} } of Object.values(services)) {
      for (const [other, { condition }] of Object.entries(needs as Record<string, { condition?: string }>)) {
        if (condition !== 'service_healthy') continue;
        const { image, healthcheck } = services[other] as Service;
        const [how, command = ''] = healthcheck?.test ?? [];
        expect(how, `${other} can be asked`).toBe('CMD-SHELL');
        const programs = command.split('&&').map((each) => each.trim().split(' ')[0] ?? '');
        for (const program of programs) expect(programsOf[image?.split(':')[0] ?? 'ceph']).toContain(program);
        checked.add(image ?? 'ceph');
      }
    }
  }
  expect(checked.size).toBe(2);
});

test('Cassandra is the one that was tested, with the setting that keeps what was acknowledged', () => {
  const { image, entrypoint } = load(join(deploy, 'engines/cassandra.yaml')).services[
    'cassandra-1'
  ] as Service & {
    entrypoint: readonly string[];
  };
  const tested = /<artifactId>cassandra-all<\/artifactId><version>([^<]+)</.exec(
    read('engines/cassandra/server/pom.xml'),
  );
  expect(image).toBe(`cassandra:${tested?.[1]}`);
  const sync = /^commitlog_sync: .*$/m.exec(read('engines/cassandra/conf/cassandra.yaml.tpl'));
  expect(entrypoint.join('\n')).toContain(`'${sync?.[0]}'`);
});

test('every setting that deploy, the docs and the README name exists', () => {
  const files = [...filesIn('deploy'), ...filesIn('docs'), 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];
  const unknown = files
    .filter((path) => /\.(md|yaml|sh)$|Dockerfile$/.test(path))
    .flatMap((path) =>
      [...read(path).matchAll(/\bSVC_[A-Z0-9_]*[A-Z0-9]\b(?!_?\*)/g)].map(([name]) => `${path}: ${name}`),
    )
    .filter((found) => !(found.slice(found.indexOf('SVC_')) in settings));
  expect(unknown).toEqual([]);
});
