/** The settings table: ranges on both sides, every fault at once, clamps, empties, flags and credentials. */
import { describe, expect, it } from 'vitest';
import { parseBytes } from '../../src/base/text/byte-size.ts';
import { integer, parseDuration } from '../../src/config/kinds.ts';
import { parseCidr } from '../../src/config/network.ts';
import {
  configWith,
  parseConfig,
  parseFlags,
  readConfig,
  readSettings,
  toFlag,
} from '../../src/config/read-config.ts';
import { workerNames } from '../../src/config/workers.ts';
import { settingNames } from '../../src/config.ts';

const faultsOf = (env: Record<string, string>): readonly string[] => {
  const parsed = parseConfig(env);
  return 'faults' in parsed ? parsed.faults : [];
};

describe('a configuration', () => {
  it('is complete and in memory when nothing is set', () => {
    const config = configWith();
    expect(Object.keys(config).sort()).toEqual([...settingNames].sort());
    expect(config).toMatchObject({
      SVC_LISTEN: { host: '127.0.0.1', port: 9000 },
      SVC_META_BACKEND: 'memory',
      SVC_DATA_BACKEND: 'memory',
      SVC_DATA_DIR: undefined,
      SVC_BUCKET_SHARDS: 64,
      SVC_GC_INTERVAL: 60_000,
      SVC_LOG_LEVEL: 'INFO',
      SVC_REGION: 'default',
      SVC_SIGV2_PRESIGN: true,
      SVC_POOL_CLUSTERS: [{ id: 'default' }],
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it('keeps everything in the data directory when there is one, unless a backend is named', () => {
    expect(configWith({ SVC_DATA_DIR: '/d' })).toMatchObject({
      SVC_META_BACKEND: 'embedded',
      SVC_DATA_BACKEND: 'file',
    });
    expect(configWith({ SVC_DATA_DIR: '/d', SVC_DATA_BACKEND: 'noop' }).SVC_DATA_BACKEND).toBe('noop');
  });

  it('reports every fault, each with its value and what would be right', () => {
    expect(
      faultsOf({
        SVC_BUCKET_SHARDS: '63',
        SVC_GC_INTERVAL: '1ms',
        SVC_LOG_LEVEL: 'LOUD',
        SVC_LISTEN: 'nowhere',
        SVC_WORKERS: 'gc,sweeper',
        SVC_TLS_CERT_FILE: '/c.pem',
        SVC_KV_KEY_FILE: '/k.pem',
      }),
    ).toEqual([
      'SVC_LISTEN=nowhere is not an address such as 127.0.0.1:9000, [::1]:9000 or :9000',
      'SVC_BUCKET_SHARDS=63 is not a power of two',
      `SVC_WORKERS=gc,sweeper: unknown worker "sweeper", known are ${[...workerNames, 'all', 'gateway'].join(', ')}`,
      'SVC_GC_INTERVAL=1ms is outside [10ms, 24h]',
      'SVC_LOG_LEVEL=LOUD is not one of DEBUG, INFO, WARN, ERROR',
      'SVC_TLS_CERT_FILE and SVC_TLS_KEY_FILE go together: the second is not set',
      'SVC_KV_CERT_FILE and SVC_KV_KEY_FILE go together: the first is not set',
    ]);
  });

  it.each([
    ['SVC_BUCKET_SHARDS', '1', '0'],
    ['SVC_BUCKET_SHARDS', '65536', '131072'],
    ['SVC_DEK_CACHE_TTL', '30s', '29999ms'],
    ['SVC_DEK_CACHE_TTL', '1h', '1h1ms'],
    ['SVC_KEY_MAX_AGE', '24h', '23h59m'],
    ['SVC_KEY_MAX_AGE', '8760h', '8760h1s'],
    ['SVC_GC_INTERVAL', '10ms', '9ms'],
    ['SVC_GC_INTERVAL', '24h', '24h1ms'],
    ['SVC_GC_GRACE', '30d', '31d'],
    ['SVC_INTENT_TTL', '1s', '999ms'],
    ['SVC_MEMORY_MAX', '64MiB', '63MiB'],
    ['SVC_MEMORY_MAX', '1TiB', '1025GiB'],
    ['SVC_LISTEN', ':65535', ':65536'],
  ])('takes %s=%s and refuses %s', (name, inside, outside) => {
    expect(faultsOf({ [name]: inside })).toEqual([]);
    expect(faultsOf({ [name]: outside })).toHaveLength(1);
  });

  it('takes 1 to 256 processes of backends that can share', () => {
    const shared = { SVC_DATA_DIR: '/d' };
    expect(faultsOf({ ...shared, SVC_PROCESSES: '256' })).toEqual([]);
    expect(faultsOf({ ...shared, SVC_PROCESSES: '257' })).toEqual(['SVC_PROCESSES=257 is outside [1, 256]']);
    expect(faultsOf({ ...shared, SVC_PROCESSES: '0' })).toEqual(['SVC_PROCESSES=0 is outside [1, 256]']);
    expect(faultsOf({ SVC_PROCESSES: '1' })).toEqual([]);
    expect(faultsOf({ SVC_PROCESSES: '2' })).toEqual([
      'SVC_PROCESSES=2 needs backends that processes can share: a memory backend lives in one',
    ]);
  });

  it.each([
    [{ SVC_KEY_PROVIDER: 'transit' }, 'SVC_TRANSIT_ADDR and SVC_TRANSIT_TOKEN_FILE'],
    [
      { SVC_KEY_PROVIDER: 'transit', SVC_TRANSIT_ADDR: 'https://b', SVC_TRANSIT_AUTH: 'approle' },
      'SVC_TRANSIT_ROLE_ID and SVC_TRANSIT_SECRET_ID_FILE',
    ],
    [{ SVC_KEY_PROVIDER: 'cloud-kms', SVC_KMS_CREDENTIALS: 'imds' }, 'SVC_KMS_ENDPOINT'],
    [{ SVC_KEY_PROVIDER: 'pkcs11' }, 'SVC_PKCS11_MODULE and SVC_PKCS11_TOKENS and SVC_PKCS11_PIN_FILE'],
    [{ SVC_KEY_PROVIDER: 'pkcs11', SVC_PKCS11_MODULE: '/m', SVC_PKCS11_TOKENS: 'a' }, 'SVC_PKCS11_PIN_FILE'],
  ])('says what a key provider needs, and its login: %s', (env: Record<string, string>, needs) => {
    const { SVC_KEY_PROVIDER: provider, SVC_TRANSIT_AUTH: auth = 'token' } = env;
    const login =
      provider === 'transit'
        ? ` with SVC_TRANSIT_AUTH=${auth}`
        : provider === 'cloud-kms'
          ? ' with SVC_KMS_CREDENTIALS=imds'
          : '';
    expect(faultsOf(env)).toEqual([`SVC_KEY_PROVIDER=${provider}${login} needs ${needs}`]);
  });

  it('requires servers, credentials and a master key for metadata that gateways share', () => {
    expect(faultsOf({ SVC_META_BACKEND: 'wide-column' })).toEqual([
      'SVC_META_BACKEND=wide-column needs SVC_WIDECOL_HOSTS and SVC_CREDENTIALS_FILE and SVC_MASTER_KEY_FILE, the same in every gateway',
    ]);
    const credentials = '[{"accessKey":"key","secretKey":"secret-secret","owner":"me"}]';
    const shared = {
      SVC_CREDENTIALS: credentials,
      SVC_MASTER_KEY_FILE: '/key',
      SVC_META_BACKEND: 'ordered-kv',
    };
    expect(faultsOf({ ...shared, SVC_KV_PD_ENDPOINTS: 'pd:2379,pd2' })).toEqual([
      'SVC_KV_PD_ENDPOINTS=pd:2379,pd2 names "pd2", which is not host:port',
    ]);
    expect(faultsOf({ ...shared, SVC_KV_PD_ENDPOINTS: 'pd:2379' })).toEqual([]);
  });

  it('requires a data directory for durable backends', () => {
    expect(faultsOf({ SVC_META_BACKEND: 'embedded', SVC_DATA_BACKEND: 'file' })).toEqual([
      'SVC_META_BACKEND=embedded and SVC_DATA_BACKEND=file need SVC_DATA_DIR',
    ]);
    const clusters = '[{"id":"a","dir":"/a"}]';
    expect(faultsOf({ SVC_DATA_BACKEND: 'file', SVC_POOL_CLUSTERS: clusters })).toEqual([]);
  });

  it('does not check a setting against one that could not be read', () => {
    expect(faultsOf({ SVC_META_BACKEND: 'none', SVC_PROCESSES: '2' })).toHaveLength(1);
  });

  it('counts an empty variable as unset, except that empty workers are no workers', () => {
    expect(configWith({ SVC_GC_INTERVAL: ' ', SVC_REGION: '' })).toMatchObject({
      SVC_GC_INTERVAL: 60_000,
      SVC_REGION: 'default',
    });
    expect(configWith({ SVC_WORKERS: '' }).SVC_WORKERS).toEqual([]);
    expect(configWith({ SVC_WORKERS: 'gateway' }).SVC_WORKERS).toEqual([]);
    expect(configWith({ SVC_WORKERS: 'all' }).SVC_WORKERS).toEqual(workerNames);
    expect(configWith({ SVC_WORKERS: ' gc, gateway' }).SVC_WORKERS).toEqual(['gc']);
  });

  it('accepts the workers that the specification names', () => {
    const names = 'gateway,gc,lifecycle,replicator,inventory,notify,access-log,quota-reconcile,usage-rollup';
    const wanted = names.split(',').filter((name) => name !== 'gateway');
    expect([...configWith({ SVC_WORKERS: names }).SVC_WORKERS].sort()).toEqual(wanted.sort());
    const { warnings, faults } = readConfig({ SVC_WORKERS: names });
    expect([warnings, faults]).toEqual([[], []]);
  });

  it('warns of an unknown setting and names the nearest one', () => {
    const { config, warnings } = readConfig({ SVC_GC_INTERVALL: '1m', SVC_XYZZY_PLUGH: '1', PATH: '/bin' });
    expect(config).toBeDefined();
    expect(warnings).toEqual([
      'SVC_GC_INTERVALL is not a setting; SVC_GC_INTERVAL is',
      'SVC_XYZZY_PLUGH is not a setting',
    ]);
  });

  it('warns where one half of the data outlives the other', () => {
    expect(readConfig({ SVC_DATA_DIR: '/d', SVC_DATA_BACKEND: 'memory' }).warnings).toEqual([
      'SVC_DATA_BACKEND=memory loses at exit the bytes that SVC_META_BACKEND=embedded remembers',
    ]);
    expect(readConfig({ SVC_DATA_DIR: '/d', SVC_DATA_BACKEND: 'noop' }).warnings).toEqual([]);
  });

  it('warns where requests to TiKV give up before the locks of a dead gateway do', () => {
    const env = { SVC_META_BACKEND: 'ordered-kv', SVC_KV_PD_ENDPOINTS: 'pd:2379', SVC_DATA_DIR: '/d' };
    expect(readConfig({ ...env, SVC_KV_TIMEOUT: '6001ms' }).warnings).toEqual([]);
    expect(readConfig({ ...env, SVC_KV_TIMEOUT: '6s' }).warnings).toEqual([
      'SVC_KV_TIMEOUT=6000ms is no longer than the locks of a gateway that died (6000ms): writes that meet one are answered 503',
    ]);
  });

  it('clamps with a warning where the table says so', () => {
    const table = {
      SVC_SAMPLES: integer({ fallback: '24', range: ['1', '1440'], outside: 'clamped', doc: '' }),
    };
    const checks = { faults: [], warnings: [] };
    const read = (text: string) =>
      readSettings<{ SVC_SAMPLES: number }>(table, { env: { SVC_SAMPLES: text }, flags: {}, checks });
    expect(read('1441')).toMatchObject({
      config: { SVC_SAMPLES: 1440 },
      warnings: ['SVC_SAMPLES=1441 is outside [1, 1440]: 1440 is used'],
    });
    expect(read('0')).toMatchObject({ config: { SVC_SAMPLES: 1 } });
    expect(read('1440')).toMatchObject({ config: { SVC_SAMPLES: 1440 }, warnings: [] });
    expect(read('many').faults).toEqual(['SVC_SAMPLES=many is not a whole number such as 24']);
  });

  it('has the defaults of the specification for quotas and usage, and clamps the samples of a day', () => {
    expect(configWith({})).toMatchObject({
      SVC_QUOTA_RECONCILE_INTERVAL: 6 * 3_600_000,
      SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES: 1_048_576,
      SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: '0.5%',
      SVC_USAGE_ROLLUP_AT: '00:00',
      SVC_USAGE_ROLLUP_INTERVAL: 24 * 3_600_000,
      SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: 24,
    });
    for (const [given, used] of [
      ['1441', 1_440],
      ['0', 1],
      ['-5', 1],
    ] as const) {
      const { config, warnings } = readConfig({
        SVC_DATA_DIR: '/d',
        SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: given,
      });
      expect([config?.SVC_USAGE_ROLLUP_SAMPLES_PER_DAY, warnings]).toEqual([
        used,
        [`SVC_USAGE_ROLLUP_SAMPLES_PER_DAY=${given} is outside [1, 1440]: ${used} is used`],
      ]);
    }
  });

  it('reads clusters as ids or as JSON, and names each faulty entry', () => {
    const ceph = '[{"id":"a","monHosts":"10.0.0.1,10.0.0.2","user":"client.sluice","pool":"chunks"}]';
    expect(configWith({ SVC_POOL_CLUSTERS: 'a, b' }).SVC_POOL_CLUSTERS).toEqual([{ id: 'a' }, { id: 'b' }]);
    expect(faultsOf({ SVC_POOL_CLUSTERS: 'a,a,B' })).toEqual([
      'SVC_POOL_CLUSTERS=a,a,B: entry 2 repeats the id "a"',
      'SVC_POOL_CLUSTERS=a,a,B: entry 3 needs an id of a-z, 0-9, ".", "_" and "-", at most 63 long',
    ]);
    expect(
      configWith({ SVC_DATA_BACKEND: 'cluster-pool', SVC_POOL_CLUSTERS: ceph }).SVC_POOL_CLUSTERS,
    ).toEqual(JSON.parse(ceph));
    expect(faultsOf({ SVC_POOL_CLUSTERS: ceph })).toEqual([
      'SVC_POOL_CLUSTERS gives a monHosts, user, pool, which SVC_DATA_BACKEND=memory does not use',
    ]);
    expect(faultsOf({ SVC_POOL_CLUSTERS: '[{"id":"a","user":"sluice","namespace":"a/b"}]' })).toEqual([
      expect.stringContaining('entry 1 has a user that is not a user such as "client.sluice"'),
      expect.stringContaining('entry 1 has a namespace that is not a name of at most 30'),
    ]);
    expect(faultsOf({ SVC_POOL_CLUSTERS: '[null,{"id":"a","path":"/"}]' })).toHaveLength(2);
    expect(faultsOf({ SVC_POOL_CLUSTERS: '{"id":"a"}' })).toHaveLength(1);
  });

  it('parses the sinks of notifications, and never prints their secrets', () => {
    const given = [{ id: 'jobs', type: 'nats', url: 'nats://q', subject: 'events', token: 'hidden' }];
    expect(configWith().SVC_NOTIFY_TARGETS).toEqual([]);
    expect(configWith({ SVC_NOTIFY_TARGETS: JSON.stringify(given) }).SVC_NOTIFY_TARGETS).toEqual(given);
    const wrong = [
      null,
      { id: 'a b', type: 'pigeon', url: 'nowhere', token: ' ', path: '/' },
      ...given,
      ...given,
    ];
    const faults = faultsOf({ SVC_NOTIFY_TARGETS: JSON.stringify(wrong) });
    expect(faults.map((each) => each.replace(/^.*?: entry/, 'entry'))).toEqual([
      'entry 1 is not an object',
      'entry 2 needs an id of A-Z, a-z, 0-9, "_" and "-", at most 80 long',
      'entry 2 needs a type that is one of webhook, nats, redis, postgres, mqtt, amqp, sqs, kafka, queue',
      'entry 2 needs a url',
      'entry 2 has a token that is not printable ASCII without spaces',
      'entry 4 repeats the id "jobs"',
    ]);
    expect(faults.join()).not.toContain('hidden');
    expect(faultsOf({ SVC_NOTIFY_TARGETS: '{}' })).toHaveLength(1);
  });

  it('takes a queue by its binding, and no url with it', () => {
    const queue = { id: 'jobs', type: 'queue', binding: 'EVENTS' };
    const parsed = configWith({ SVC_NOTIFY_TARGETS: JSON.stringify([queue]) });
    expect(parsed.SVC_NOTIFY_TARGETS).toEqual([{ ...queue, url: '' }]);
    const faults = [
      { ...queue, binding: undefined },
      { ...queue, binding: 'my-queue' },
      { ...queue, url: 'https://q' },
      { ...queue, token: 't' },
    ].map((entry) => faultsOf({ SVC_NOTIFY_TARGETS: JSON.stringify([entry]) }).join());
    expect(faults).toEqual([
      expect.stringContaining('entry 1 is of type queue and needs binding'),
      expect.stringContaining('entry 1 has a binding that is not a name such as EVENTS'),
      expect.stringContaining('entry 1 is of type queue and has a url: name its binding only'),
      expect.stringContaining('entry 1 is of type queue and has an unknown field "token"'),
    ]);
  });

  it('refuses a key of a webhook that no base64 decoder takes', () => {
    const withSecret = (secret: string) =>
      faultsOf({
        SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', type: 'webhook', url: 'http://sink', secret }]),
      });
    for (const key of ['YQ==', 'YQ', 'YWI=', 'YWI', 'YWJj', 'YWJjZA', 'YWJjZGU='])
      expect([key, atob(key) === '', withSecret(`whsec_${key}`)]).toEqual([key, false, []]);
    for (const key of ['', 'Y', 'YWJjZ', 'YQ=', 'YWJj=', 'YW Jj', 'YWJj-_'])
      expect(withSecret(`whsec_${key}`), key).toEqual([expect.stringContaining('is no base64')]);
    expect(withSecret('any other text')).toEqual([]);
  });
});

describe('flags', () => {
  it('mirror every setting, and win over the variable', () => {
    expect(toFlag('SVC_DATA_DIR')).toBe('--data-dir');
    expect(new Set(settingNames.map(toFlag)).size).toBe(settingNames.length);
    const { input: given } = parseFlags(['--region', 'here', '--bucket-shards=8']);
    const parsed = parseConfig({ SVC_REGION: 'there', SVC_BUCKET_SHARDS: '16' }, given);
    expect(parsed).toMatchObject({ SVC_REGION: 'here', SVC_BUCKET_SHARDS: 8 });
  });

  it('count the last of a repeated one', () => {
    const args = ['--data-dir', './data', '--listen', ':1', '--data-dir', '/d', '--listen=127.0.0.1:9100'];
    expect(parseFlags(args).input).toEqual({ SVC_DATA_DIR: '/d', SVC_LISTEN: '127.0.0.1:9100' });
  });

  it('may be empty: no workers, or an unset variable', () => {
    expect(parseFlags(['--workers=', '--data-dir=']).input).toEqual({ SVC_WORKERS: '', SVC_DATA_DIR: '' });
    expect(parseConfig({ SVC_DATA_DIR: '/d' }, { SVC_DATA_DIR: '' })).toMatchObject({
      SVC_META_BACKEND: 'memory',
    });
  });

  it('need no value where they are switches', () => {
    expect(parseFlags(['--region-strict', '--sigv2-presign', 'off']).input).toEqual({
      SVC_REGION_STRICT: 'true',
      SVC_SIGV2_PRESIGN: 'off',
    });
  });

  it('are refused when unknown, stray or without their value, all at once', () => {
    expect(parseFlags(['--lisen', ':1', 'stray', '--json', '--region'], ['--json'])).toEqual({
      input: {},
      own: ['--json'],
      faults: [
        '--lisen is not a flag; --listen is',
        '"stray" is not expected here',
        '--region needs a value',
      ],
    });
  });
});

describe('credentials', () => {
  const good = { accessKey: 'AKIDEXAMPLE', secretKey: 'correct-horse-battery', owner: 'alice' };
  const faults = (entries: unknown): readonly string[] =>
    faultsOf({ SVC_CREDENTIALS: JSON.stringify(entries) });

  it('take their optional fields from defaults', () => {
    expect(configWith({ SVC_CREDENTIALS: JSON.stringify([good]) }).SVC_CREDENTIALS).toEqual([
      { ...good, displayName: 'alice', root: false, operator: false },
    ]);
  });

  it('are refused with every fault named by position, and no secret shown', () => {
    const told = faults([
      good,
      { accessKey: 'x', secretKey: 'short', owner: '' },
      { ...good, root: 'yes', colour: 'red' },
      7,
    ]);
    expect(told).toEqual([
      'SVC_CREDENTIALS entry 2: accessKey must be 3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-',
      'SVC_CREDENTIALS entry 2: secretKey must be 8 to 256 printable ASCII characters without spaces',
      'SVC_CREDENTIALS entry 2: owner must be 1 to 128 characters of A-Z, a-z, 0-9 and ._@-',
      'SVC_CREDENTIALS entry 3: root must be true or false',
      'SVC_CREDENTIALS entry 3 has an unknown field "colour"',
      'SVC_CREDENTIALS entry 3 repeats the access key of entry 1',
      'SVC_CREDENTIALS entry 4 is not an object',
    ]);
    expect(told.join()).not.toMatch(/short|correct-horse/);
  });

  it('are refused without showing the text when it is no list', () => {
    expect(faultsOf({ SVC_CREDENTIALS: '[{"secretKey":"hidden-secret"' })).toEqual([
      'SVC_CREDENTIALS is not valid JSON',
    ]);
    expect(faults({})).toHaveLength(1);
    expect(faults([])).toEqual(['SVC_CREDENTIALS lists no credential']);
  });

  it('may be at a limit and not beyond it', () => {
    expect(faults([{ ...good, accessKey: 'abc', secretKey: '12345678' }])).toEqual([]);
    expect(faults([{ ...good, accessKey: 'a'.repeat(128), secretKey: 's'.repeat(256) }])).toEqual([]);
    expect(faults([{ ...good, accessKey: 'a'.repeat(129) }])).toHaveLength(1);
    expect(faults([{ ...good, secretKey: '1234567' }])).toHaveLength(1);
    expect(faults([{ ...good, accessKey: 'a/b/c' }])).toHaveLength(1);
  });

  it('come from one place', () => {
    const both = { SVC_CREDENTIALS: JSON.stringify([good]), SVC_CREDENTIALS_FILE: '/c.json' };
    expect(faultsOf(both)).toEqual(['SVC_CREDENTIALS and SVC_CREDENTIALS_FILE exclude each other']);
  });
});

describe('units', () => {
  it.each([
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['1.5h', 5_400_000],
    ['30d', 2_592_000_000],
    ['250ms', 250],
    ['0', 0],
    ['0s', 0],
  ])('reads the duration %s', (text, ms) => expect(parseDuration(text)).toBe(ms));

  it.each(['', '5', '-1s', '1 s', '1w', 's', '1s2', '1e3s'])('refuses %j as a duration', (text) =>
    expect(parseDuration(text)).toBeUndefined(),
  );

  it.each([
    ['4096', 4096],
    ['512MiB', 536_870_912],
    ['1.5KiB', 1536],
    ['10B', 10],
    ['10GB', 10_000_000_000],
    ['0.5KB', 500],
    ['2PiB', 2 ** 51],
  ])('reads the size %s', (text, size) => expect(parseBytes(text)).toBe(size));

  it.each(['', '1mb', '1iB', '1.5', '1.5B', '1 MiB', '-1', 'MiB', '1e9'])('refuses %j as a size', (text) =>
    expect(parseBytes(text)).toBeUndefined(),
  );

  it.each([
    ['10.0.0.0/8', '10.255.255.255', '11.0.0.0'],
    ['10.0.0.0/8', '::ffff:10.1.2.3', '::ffff:11.1.2.3'],
    ['192.0.2.7', '192.0.2.7', '192.0.2.8'],
    ['0.0.0.0/0', '203.0.113.9', '::1'],
    ['fd00::/8', 'fdff::1', 'fe00::1'],
    ['::1', '::1', '::2'],
    ['2001:db8::/32', '2001:db8:0:0:0:0:0:1', 'not an address'],
  ])('knows that %s contains %s and not %s', (range, inside, outside) => {
    const cidr = parseCidr(range);
    expect(cidr?.contains(inside)).toBe(true);
    expect(cidr?.contains(outside)).toBe(false);
  });

  it.each(['10.0.0.0/33', '10.0.0/8', '256.0.0.0/8', 'fd00:::/8', '::1/129', '10.0.0.0/8/8', 'x'])(
    'refuses the range %s',
    (text) => expect(parseCidr(text)).toBeUndefined(),
  );
});
