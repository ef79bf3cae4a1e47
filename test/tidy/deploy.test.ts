/** `deploy/` and the docs: files parse and agree, images are pinned, and every named setting exists. */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { parseBytes } from '../../src/base/text/byte-size.ts';
import { parseDuration } from '../../src/config/kinds.ts';
import { configWith } from '../../src/config/read-config.ts';
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
  readonly stop_grace_period?: string;
  readonly mem_limit?: string;
  readonly cpus?: number;
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

test('there is a file for the default mode, and one for each pair of a metadata and a data backend', () => {
  expect(composes.toSorted()).toEqual([
    'cassandra.yaml',
    'ceph-cassandra.yaml',
    'ceph-tikv.yaml',
    'embedded.yaml',
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
    expect(['embedded', 'wide-column', 'ordered-kv']).toContain(config.SVC_META_BACKEND);
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

interface Stopping {
  readonly file: string;
  /** How long the service manager waits between SIGTERM and SIGKILL, in seconds. */
  readonly graceS: number;
}

/** Kubernetes' containers of the gateway, with the pod around them. */
function podOf(file: string) {
  const documents = parseAllDocuments(read(join('deploy/kubernetes', file)), { merge: true }).map((each) =>
    each.toJS(),
  );
  const { spec } = documents.find(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
  const pod = spec.template.spec;
  return { spec, pod, container: pod.containers[0], documents };
}
const pods = readdirSync(join(deploy, 'kubernetes'));
const unit = read('deploy/systemd/sluice.service');
const unitValue = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
const seconds = (text: string): number => (parseDuration(text) ?? Number.NaN) / 1000;

const stopping: readonly Stopping[] = [
  ...composes.map((file) => ({
    file,
    graceS: seconds(whole(join(deploy, file)).services['gateway']?.stop_grace_period ?? '10s'),
  })),
  ...pods.map((file) => {
    const { pod, container } = podOf(file);
    const [, preStopS = ''] = container.lifecycle.preStop.exec.command;
    return {
      file: `kubernetes/${file}`,
      graceS: pod.terminationGracePeriodSeconds - Number(preStopS),
    };
  }),
  { file: 'systemd/sluice.service', graceS: seconds(unitValue('TimeoutStopSec')) },
];

test.each(stopping)('$file waits longer than a gateway takes to stop', ({ graceS }) => {
  // SVC_SHUTDOWN_TIMEOUT, and what a process of several may take beyond it before the first one kills it.
  const slowestS = seconds(settings.SVC_SHUTDOWN_TIMEOUT.fallback ?? '') + 5;
  expect(graceS).toBeGreaterThanOrEqual(slowestS + 5);
});

test('where memory is limited, the limit has room for the processes', () => {
  const { environment = {}, mem_limit: limit = '' } = whole(join(deploy, 'embedded.yaml')).services[
    'gateway'
  ] as Service;
  const limits = [
    { environment, limit: parseBytes(`${limit.replace(/g$/, 'GiB')}`) },
    ...pods.map((file) => {
      const { container } = podOf(file);
      const env = container.env.map(({ name, value }: { name: string; value: string }) => [name, value]);
      const { requests, limits: most } = container.resources;
      return {
        environment: Object.fromEntries(env),
        requested: parseBytes(`${requests.memory}B`),
        limit: parseBytes(`${most.memory}B`),
      };
    }),
  ];
  for (const { environment: env, limit: bytes = 0, ...rest } of limits) {
    const { SVC_PROCESSES: processes, SVC_MEMORY_MAX: each } = env;
    const needed = Number(processes) * (parseBytes(each ?? '') ?? Number.NaN) + 128 * 1024 ** 2;
    expect(bytes).toBeGreaterThanOrEqual(needed + 256 * 1024 ** 2);
    if ('requested' in rest) expect(rest.requested).toBeGreaterThanOrEqual(needed);
  }
});

test.each(pods)(
  'kubernetes/%s has settings without fault, and probes, ports and mounts that agree',
  (file) => {
    const { container, pod, spec, documents } = podOf(file);
    const env = Object.fromEntries(
      container.env.map(({ name, value }: { name: string; value: string }) => [name, value]),
    );
    const config = configWith(env);
    const ports = Object.fromEntries(
      container.ports.map(({ name, containerPort }: { name: string; containerPort: number }) => [
        name,
        containerPort,
      ]),
    );
    expect(ports).toEqual({ storage: config.SVC_LISTEN.port, admin: config.SVC_ADMIN_LISTEN?.port });
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
      expect(container[probe].httpGet.port).toBe('admin');
    const { version } = JSON.parse(read('package.json'));
    expect(container.image).toBe(`sluice:${version}`);
    const mounts: readonly string[] = container.volumeMounts.map(
      ({ mountPath }: { mountPath: string }) => mountPath,
    );
    const paths = [config.SVC_DATA_DIR, env['SVC_CREDENTIALS_FILE'], env['SVC_MASTER_KEY_FILE']];
    for (const path of [...paths, ...config.SVC_POOL_CLUSTERS.map(({ conf }) => conf)])
      if (path !== undefined)
        expect(
          mounts.some((mount) => path.startsWith(mount)),
          path,
        ).toBe(true);
    const volumes = [...(pod.volumes ?? []), ...(spec.volumeClaimTemplates ?? [])];
    const names = volumes.map(
      (each: { name?: string; metadata?: { name: string } }) => each.name ?? each.metadata?.name,
    );
    expect(names.toSorted()).toEqual(
      container.volumeMounts.map(({ name }: { name: string }) => name).toSorted(),
    );
    // Each service, budget and policy selects the pods.
    const { labels } = spec.template.metadata;
    for (const { kind, spec: other } of documents) {
      const selector = { Service: other.selector, NetworkPolicy: other.podSelector?.matchLabels }[
        kind as string
      ];
      expect(selector ?? other.selector.matchLabels, kind).toEqual(labels);
    }
    expect(documents.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['Service', 'PodDisruptionBudget', 'NetworkPolicy']),
    );
  },
);

test('the table of sizes in deploy/README.md has the values of the files', () => {
  const rows = read('deploy/README.md')
    .split('\n')
    .filter((line) => /^\| `[\w./-]+` \| [\w]+ \| \d+ ?MiB \|/.test(line))
    .map((line) =>
      line
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', ''))
        .slice(1, -1),
    );
  const compose = whole(join(deploy, 'embedded.yaml')).services['gateway'] as Service;
  const expected = [
    [
      'embedded.yaml',
      compose.environment?.['SVC_PROCESSES'],
      compose.environment?.['SVC_MEMORY_MAX'],
      compose.mem_limit,
      `${compose.cpus}`,
      compose.stop_grace_period,
    ],
    ...pods
      .toSorted()
      .reverse()
      .map((file) => {
        const { container, pod } = podOf(file);
        const setTo = (name: string) =>
          container.env.find((each: { name: string }) => each.name === name).value;
        const { requests, limits } = container.resources;
        return [
          `kubernetes/${file}`,
          setTo('SVC_PROCESSES'),
          setTo('SVC_MEMORY_MAX'),
          limits.memory,
          `${requests.cpu} requested`,
          `${pod.terminationGracePeriodSeconds}s`,
        ];
      }),
    [
      'systemd/sluice.service',
      settings.SVC_PROCESSES.fallback,
      settings.SVC_MEMORY_MAX.fallback,
      'none',
      'all',
      unitValue('TimeoutStopSec'),
    ],
  ];
  expect(rows).toEqual(expected);
});

test('every setting that deploy, the docs and the README name exists', () => {
  const files = [...filesIn('deploy'), ...filesIn('docs'), 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];
  const unknown = files
    .filter((path) => /\.(md|yaml|sh|env|service)$|Dockerfile$/.test(path))
    .flatMap((path) =>
      [...read(path).matchAll(/\bSVC_[A-Z0-9_]*[A-Z0-9]\b(?!_?\*)/g)].map(([name]) => `${path}: ${name}`),
    )
    .filter((found) => !(found.slice(found.indexOf('SVC_')) in settings));
  expect(unknown).toEqual([]);
});
