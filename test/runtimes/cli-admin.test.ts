/** `sluice admin`, `sluice keygen` and `sluice completion`: child processes against a real server. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AdminRefused, openAdminClient } from '../../src/admin-client.ts';
import { masterKeys } from '../../src/config/keys.ts';
import { adminCommands, findAdminCommand } from '../../src/runtime/cli/commands.ts';
import { hasFailed, progressLine } from '../../src/runtime/cli/watch.ts';
import { sender } from './client.ts';
import { cliPath, endAll, finished, keysOf, serving, started } from './command.ts';

let home = '';
let env: Record<string, string> = {};
let profile = { endpoint: '', accessKey: '', secretKey: '' };

const mayWriteLists = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Principal: { Service: 's3.amazonaws.com' },
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::lists/*',
    },
  ],
});
const inventory = `<InventoryConfiguration><Id>all</Id><IsEnabled>true</IsEnabled>
  <Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format></S3BucketDestination></Destination>
  <Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>Current</IncludedObjectVersions></InventoryConfiguration>`;
const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const replication = `<ReplicationConfiguration><Role>arn:aws:iam::123456789012:role/r</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
  <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:lists</Bucket></Destination>
  <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-admin-'));
  const server = await serving([], {
    SVC_POOL_CLUSTERS: 'default,second',
    SVC_GC_GRACE: '0s',
    SVC_GC_INTERVAL: '50ms',
    SVC_REBALANCE_INTERVAL: '50ms',
    SVC_EGRESS_ALLOW: '127.0.0.1',
    SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'billing', type: 'webhook', url: 'http://127.0.0.1:9/' }]),
  });
  const [accessKey = '', secretKey = ''] = keysOf(server);
  profile = { endpoint: server.url, accessKey, secretKey };
  env = {
    HOME: home,
    SLUICE_ENDPOINT: server.url,
    SLUICE_ACCESS_KEY: accessKey,
    SLUICE_SECRET_KEY: secretKey,
  };
  const send = sender({ url: server.url, accessKey, secretKey });
  const put = async (path: string, body = '') =>
    expect((await send('PUT', path, { body })).text, path).not.toContain('<Error>');
  for (const bucket of ['books', 'full', 'listed', 'sent', 'lists']) await put(`/${bucket}`);
  for (const key of ['full/a', 'full/b', 'listed/a', 'sent/a']) await put(`/${key}`);
  await put('/lists?policy=', mayWriteLists);
  await put('/listed?id=all&inventory=', inventory);
  await put('/sent?versioning=', versioned);
  // Another site: a gateway refuses itself as a destination.
  const far = await serving([], { SVC_EGRESS_ALLOW: '127.0.0.1' });
  const [farKey = '', farSecret = ''] = keysOf(far);
  const sendFar = sender({ url: far.url, accessKey: farKey, secretKey: farSecret });
  for (const [path, body] of [
    ['/lists', ''],
    ['/lists?versioning=', versioned],
  ] as const)
    expect((await sendFar('PUT', path, { body })).text, path).not.toContain('<Error>');
  const peer = `replication peers set far --endpoint ${far.url} --access-key ${farKey} --secret-key ${farSecret}`;
  expect((await admin(peer)).stderr).toBe('');
  await put('/sent?replication=', replication);
  const away = `replication peers set away --endpoint http://127.0.0.1:9 --access-key abc --secret-key ${secretKey} --accounts [{"account":"alice","buckets":["c-*"]}]`;
  expect((await admin(away)).stderr).toBe('');
});
afterAll(async () => {
  await endAll();
  await rm(home, { recursive: true, force: true });
});

/** A proxy that breaks each connection once the server has sent so many bytes. */
async function cutting(to: URL, bytesMax: number) {
  const server = createServer((client) => {
    const upstream = connect(Number(to.port), to.hostname);
    let sent = 0;
    client.pipe(upstream);
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    upstream.on('data', (piece: Uint8Array) => {
      client.write(piece.subarray(0, Math.max(0, bytesMax - sent)));
      sent += piece.length;
      if (sent >= bytesMax) client.end(() => client.destroy());
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

const admin = (line: string, more: Record<string, string> = {}) =>
  finished(['admin', ...line.split(' ')], { ...env, ...more });

describe('sluice admin', () => {
  it('has a command with other words for every operation', () => {
    const words = adminCommands.map((command) => command.words.join(' '));
    expect(words).toEqual([...new Set(words)]);
    for (const command of adminCommands)
      expect(findAdminCommand(command.words)?.operation).toBe(command.operation);
    expect(findAdminCommand(['clusters'])?.operation).toBe('ListClusters');
    expect(findAdminCommand(['clusters', 'b'])?.operation).toBe('GetCluster');
  });

  it('sets and shows a configuration, as a table and as JSON, and under --if-match only the one it knows', async () => {
    const set = 'buckets quota set books --max-bytes 10 --max-objects 20 --max-bytes-per-object=30';
    expect(await admin(set)).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect((await admin('buckets quota books')).stdout).toMatch(/^maxBytes +10\nmaxObjects +20\n/);
    const shown = await admin('buckets quota get books --json');
    expect(JSON.parse(shown.stdout)).toEqual({ maxBytes: 10, maxObjects: 20, maxBytesPerObject: 30 });
    // Only the limits that are named change.
    await admin('buckets quota set books --max-bytes 10GiB --max-objects null');
    const changed = await admin('buckets quota get books --json');
    expect(JSON.parse(changed.stdout)).toEqual({
      maxBytes: 10 * 1024 ** 3,
      maxObjects: 0,
      maxBytesPerObject: 30,
    });
    const stale = await admin(`${set} --if-match "x"`);
    expect([stale.code, stale.stderr]).toEqual([1, expect.stringContaining('PreconditionFailed')]);
    const workers = (await admin('workers')).stdout;
    expect(workers).toMatch(/^WORKER +STATE/);
    // Times as a person reads them; --json has them as they arrived.
    expect(workers).toMatch(/^gc .* 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ /m);
    expect(workers).not.toMatch(/\b1[0-9]{9}\b/);
    expect((await admin('workers --json')).stdout).toMatch(/"since":\d{10},/);
    expect((await admin('requests --bucket none-of-this-name')).stdout).toBe('no requests\n');
  });

  it('checks, sets and shows a configuration of a bucket from a file', async () => {
    const file = join(home, 'cors.json');
    const config = 'buckets configurations';
    await writeFile(file, JSON.stringify({ CORSRule: [{ AllowedMethod: ['LIST'], AllowedOrigin: ['*'] }] }));
    const refused = await admin(`${config} set books cors --file ${file} --dry-run --json`);
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.stdout)).toMatchObject({
      isStored: false,
      refusals: [{ path: 'CORSRule[0].AllowedMethod[0]', right: expect.stringContaining('GET') }],
    });
    await writeFile(file, JSON.stringify({ CORSRule: [{ AllowedMethod: ['GET'], AllowedOrigin: ['*'] }] }));
    expect(await admin(`${config} set books cors --file ${file} --dry-run`)).toMatchObject({ code: 0 });
    expect(await admin(`${config} set books cors --file ${file}`)).toMatchObject({ code: 0, stderr: '' });
    const shown = await admin(`${config} get books cors --json`);
    expect(JSON.parse(shown.stdout)).toMatchObject({ CORSRule: [{ AllowedMethod: ['GET'] }] });
    expect(await admin(`${config} delete books cors`)).toMatchObject({ code: 0 });
    expect((await admin(`${config} get books cors`)).stderr).toContain('NoSuchCORSConfiguration');
    const missing = await admin(`${config} set books cors`);
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('--file is missing')]);
  });

  it('prints the waterfall of a request by its id, as trace and as traces', async () => {
    const refused = await admin('buckets quota get absent --json');
    const id = /request ([0-9A-F]{16})/.exec(refused.stderr)?.[1] ?? '';
    for (const word of ['trace', 'traces']) {
      const { code, stdout } = await admin(`${word} ${id}`);
      expect([code, stdout]).toEqual([0, expect.stringContaining(id)]);
      expect(stdout).toMatch(/GetBucketQuota[\s\S]*NoSuchBucket/);
    }
    expect(await admin('trace 0000000000000000')).toMatchObject({ code: 1 });
  });

  it('says by its exit code whether it was refused, used wrongly, or reached nothing', async () => {
    const cases = [
      ['buckets quota get absent', {}, 1, 'NoSuchBucket'],
      ['buckets quota get books', { SLUICE_SECRET_KEY: 'wrong' }, 1, 'SignatureDoesNotMatch'],
      [
        'buckets quota set books --max-bytes 1.5 --max-objects 1 --max-bytes-per-object 1',
        {},
        1,
        'maxBytes must be',
      ],
      ['buckets quota set books', {}, 1, 'names no limit; it takes maxBytes'],
      ['buckets placement set books', {}, 2, '--placement is missing'],
      ['buckets quota get', {}, 2, '<name> is missing'],
      ['buckets quota get books --jsn', {}, 2, '--json is'],
      ['bukets list', {}, 2, '"bukets list" is no command; did you mean "buckets list"?'],
      ['buckets delte books', {}, 2, '"buckets delte books" is no command; did you mean "buckets delete"?'],
      ['buckets quota get books here', {}, 2, '"here" is not expected here'],
      ['nothing like it', {}, 2, 'is no command; see sluice admin --help'],
      ['keys wrap --json', {}, 2, '"keys wrap" is no command; did you mean "keys rewrap"?'],
      ['buckets quota get boks', {}, 1, 'did you mean books?'],
      ['clusters get secnd', {}, 1, 'did you mean second?'],
      ['replication peers get farr', {}, 1, 'did you mean far?'],
      ['why --action s3:GetObject', {}, 2, '"why" is no command; see sluice admin why --help'],
      ['tasks lst', {}, 2, 'did you mean "tasks list"?'],
      ['usage', {}, 2, '"usage" is no command; see sluice admin usage --help'],
      ['workers --watch', {}, 2, '--watch'],
      ['workers', { SLUICE_ACCESS_KEY: '' }, 1, ''],
      // Nothing answers at port 9: the check says what it found.
      ['replication peers check away --bucket copies', {}, 1, ''],
      ['workers', { SLUICE_ENDPOINT: 'http://127.0.0.1:9' }, 3, 'cannot be reached'],
    ] as const;
    const runs = await Promise.all(cases.map(([line, more]) => admin(line, more)));
    expect(runs.map(({ code }) => code)).toEqual(cases.map(([, , code]) => code));
    for (const [index, { stderr, stdout }] of runs.entries()) {
      expect(stderr).toContain(cases[index]?.[3]);
      expect(stderr + stdout).not.toContain(profile.secretKey);
    }
  });

  it('suggests the name that was meant, where the caller may list it', async () => {
    const client = openAdminClient(profile);
    const { json } = await client.call('CreateAccount', { body: { account: 'archive' } });
    const account = json?.account ?? '';
    const path = { account };
    await client.call('CreateIamUser', { path, body: { name: 'alice' } });
    await client.call('CreateIamGroup', { path, body: { name: 'readers' } });
    const trust = JSON.stringify({
      Version: '2012-10-17',
      Statement: { Effect: 'Allow', Principal: { AWS: '*' }, Action: 'sts:AssumeRole' },
    });
    await client.call('CreateIamRole', { path, body: { name: 'deployer', trust } });
    const document = JSON.stringify({
      Version: '2012-10-17',
      Statement: { Effect: 'Allow', Action: 's3:GetObject', Resource: '*' },
    });
    await client.call('CreateIamPolicy', { path, body: { name: 'read-all', document } });
    const attach = `accounts attachments attach ${account} --kind user --name alice`;
    const cases = [
      [`accounts get ${account}x`, account],
      [`accounts users get ${account} alcie`, 'alice'],
      [`accounts users get ${account}x alice`, account],
      [`accounts groups get ${account} reader`, 'readers'],
      [`accounts roles get ${account} deploier`, 'deployer'],
      [`accounts policies get ${account} readall`, 'read-all'],
      [
        `${attach} --policy arn:aws:iam::${account}:policy/reed-all`,
        `arn:aws:iam::${account}:policy/read-all`,
      ],
      [
        `accounts attachments attach ${account} --kind group --name raeders --policy arn:aws:iam::${account}:policy/read-all`,
        'readers',
      ],
      ['notify redrive --target biling', 'billing'],
      ['notify discard --target billings', 'billing'],
      ['workers pause lifecicle', 'lifecycle'],
      ['buckets inventory run boks all', 'books'],
    ] as const;
    const runs = await Promise.all(cases.map(([line]) => admin(line)));
    for (const [index, [line, meant]] of cases.entries())
      expect([line, runs[index]?.code, runs[index]?.stderr]).toEqual([
        line,
        1,
        expect.stringContaining(`did you mean ${meant}?`),
      ]);
    // Nothing is near: the refusal alone.
    const far = await admin('notify redrive --target elsewhere');
    expect([far.code, far.stderr]).toEqual([1, expect.stringContaining('There is no target elsewhere')]);
    expect(far.stderr).not.toContain('did you mean');
    expect((await admin('notify redrive --target billing')).code).toBe(0);
  });

  it('follows what runs in the background to its end', async () => {
    const emptied = await admin('buckets force-empty full --watch --json');
    expect([emptied.code, JSON.parse(emptied.stdout)]).toEqual([
      0,
      expect.objectContaining({ state: 'done', deleted: { versions: 2, markers: 0, uploads: 0 } }),
    ]);
  });

  it('takes the accounts of a replication peer as JSON', async () => {
    const shown = await admin('replication peers get away --json');
    expect(JSON.parse(shown.stdout)).toMatchObject({ accounts: [{ account: 'alice', buckets: ['c-*'] }] });
  });

  describe('--watch', () => {
    it.each([
      ['buckets reshard books --shards 128', { state: 'done', shards: 128 }],
      ['scrub start', { state: 'done' }],
      ['buckets inventory run listed all', { state: 'done' }],
      ['replication resync start sent', { state: 'done', read: 1, versions: 1 }],
      ['fsck start', { state: 'done', found: 0, slotsSeen: 16, slots: 16 }],
    ])('%s', async (line, end) => {
      const { code, stdout, stderr } = await admin(`${line} --watch --json`);
      expect([code, stderr]).toEqual([
        0,
        // Of the task, and of the operation's own reply before the task has begun.
        expect.stringMatching(
          /^(((\[[#.]{20}\] +\d+ % {2})?(reshard|scrub|inventory|resync|fsck|lifecycle)\b.* {2}[\d,]+( of .*)?|(\[[#.]{20}\] )?running) .*\n)*$/,
        ),
      ]);
      expect(JSON.parse(stdout)).toMatchObject(end);
    });

    it('tasks: a line for each, until none is left that runs', async () => {
      const { code, stdout, stderr } = await admin('tasks --kind scrub --watch');
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(
        /^(\[#{20}\] 100 % {2})?scrub {2}[\d,]+ of [\d,]+ versions and parts {2}.* {2}done\n$/,
      );
      expect((await admin('tasks --kind reshard --json')).stdout).toContain('"kind":"reshard"');
      expect((await admin('tasks --kind rewrap')).stdout).toBe('no tasks\n');
    });

    it('workers: paused, resumed and run by name', async () => {
      const paused = await admin('workers pause inventory --reason migration --json');
      expect(JSON.parse(paused.stdout)).toMatchObject({
        worker: 'inventory',
        paused: { reason: 'migration' },
      });
      expect(await admin('workers run inventory')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('paused'),
      });
      expect((await admin('workers resume inventory')).code).toBe(0);
      expect((await admin('workers run inventory')).code).toBe(0);
    });

    it('shows a bar where the whole is known, and where the run is', () => {
      const bar = (state: Record<string, unknown>) => progressLine(state);
      const fsck = { state: 'running', at: 'versions', slotsSeen: 4, slots: 16, versions: 7 };
      expect(bar(fsck)).toBe('[#####...............] running versions  slotsSeen 4  slots 16  versions 7');
      expect(bar({ state: 'running', read: 5, versions: 10 })).toMatch(/^\[#{10}\.{10}\] running {2}read 5/);
      expect(bar({ state: 'running', read: 50, versions: 10 })).toMatch(/^\[#{20}\]/);
      expect(bar({ state: 'running', read: 5 })).toBe('running  read 5');
    });

    it('ends with code 1 where what it followed found something wrong', () => {
      const ends = [
        [{ state: 'done', found: 2, fixed: 2 }, false],
        [{ state: 'done', found: 2, fixed: 1 }, true],
        [{ state: 'done', damaged: 1 }, true],
        [{ state: 'done', failed: 1 }, true],
        [{ state: 'failed' }, true],
        [{ deregisterReady: true, failed: 1 }, false],
        [{ deregisterReady: false }, true],
      ] as const;
      for (const [state, isFailed] of ends)
        expect([state, hasFailed(state, 'evacuate')]).toEqual([state, isFailed]);
      expect(hasFailed({ deregisterReady: false }, 'readonly')).toBe(false);
    });

    it('clusters drain, which leaves the bytes of a cluster in mode readonly', async () => {
      const line = 'clusters drain second --mode readonly --watch --json';
      const { code, stdout } = await admin(line);
      expect([code, JSON.parse(stdout)]).toEqual([
        0,
        expect.objectContaining({ cluster: 'second', deregisterReady: false }),
      ]);
    });

    it('clusters drain in mode evacuate, until it is stopped', async () => {
      const run = started(
        ['admin', ...'clusters drain second --mode evacuate --watch --json'.split(' ')],
        env,
      );
      await expect
        .poll(() => run.stderr, { timeout: 60_000 })
        .toMatch(/^(\[[#.]{20}\] +\d+ % {2})?evacuation second {2}[\d,]+( of [\d,]+)? chunks/);
      expect((await admin('clusters undrain second')).code).toBe(0);
      expect(await run.ended).toBe(1);
      expect(JSON.parse(run.stdout)).toMatchObject({ cluster: 'second', deregisterReady: false });
    });
  });

  it('writes archives and exports as they arrive, and says so where one breaks off', async () => {
    const archive = join(home, 'support.tar');
    const toFile = promisify(execFile)(
      'sh',
      ['-c', '"$0" "$1" admin support-bundle get > "$2"', process.execPath, cliPath, archive],
      { env: { PATH: process.env['PATH'] ?? '', ...env } },
    );
    expect((await toFile).stderr).toBe('');
    const bytes = await readFile(archive);
    // Blocks of 512 bytes, and nothing behind them.
    expect([bytes.length > 1_024, bytes.length % 512]).toEqual([true, 0]);
    const lines = (await admin('audit export --action CreateBucket')).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).action)).toEqual(Array(5).fill('CreateBucket'));
    // A reader that needs no more.
    const head = `"$0" "$1" admin audit export | head -c 9; "$0" "$1" admin settings | head -c 9`;
    const short = await promisify(execFile)('sh', ['-c', head, process.execPath, cliPath], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
    });
    expect([short.stdout.length, short.stderr]).toEqual([18, '']);
    await using proxy = await cutting(new URL(profile.endpoint), 2_000);
    const cut = await admin('support-bundle get', { SLUICE_ENDPOINT: proxy.endpoint });
    expect([cut.code, cut.stdout.length > 0]).toEqual([1, true]);
    expect(cut.stderr).toMatch(/^sluice: the reply broke off after \d+ bytes, so it is incomplete: .*\n$/);
  });

  it('takes keys from a profile that other users cannot read', async () => {
    const directory = join(home, '.config', 'sluice');
    const file = join(directory, 'profiles.json');
    await mkdir(directory, { recursive: true });
    await writeFile(file, JSON.stringify({ default: profile, other: { ...profile, secretKey: 'wrong' } }));
    const alone = { HOME: home };
    await chmod(file, 0o644);
    const open = await finished(['admin', 'clusters'], alone);
    expect([open.code, open.stderr]).toEqual([2, expect.stringContaining('chmod 600')]);
    await chmod(file, 0o600);
    expect((await finished(['admin', 'clusters'], alone)).code).toBe(0);
    expect((await finished(['admin', 'clusters', '--profile', 'other'], alone)).code).toBe(1);
    const absent = await finished(['admin', 'clusters', '--profile', 'absent'], alone);
    expect([absent.code, absent.stderr]).toEqual([2, expect.stringContaining('it has default, other')]);
  });

  it('reads a secret from a file, not from its arguments', async () => {
    const file = join(home, 'secret');
    await writeFile(file, 'secret-of-the-peer\n', { mode: 0o600 });
    const made = await admin(
      `replication peers set far --endpoint http://127.0.0.1:9 --access-key peer-key --secret-key @${file}`,
    );
    expect([made.code, made.stderr]).toEqual([0, '']);
    expect(made.stdout).not.toContain('secret-of-the-peer');
  });
});

describe('the client', () => {
  it('returns decoded replies, and throws refusals with their code and details', async () => {
    const client = openAdminClient(profile);
    const { json } = await client.call('ListClusters');
    expect(json.clusters.length).toBeGreaterThan(0);
    const refused = client.call('GetBucketQuota', { path: { name: 'absent' } });
    await expect(refused).rejects.toThrow(AdminRefused);
    await expect(refused).rejects.toMatchObject({
      status: 404,
      code: 'NoSuchBucket',
      details: { bucketName: 'absent' },
    });
    // @ts-expect-error A cluster has an id.
    await expect(client.call('GetCluster', { path: { name: 'x' } })).rejects.toThrow(RangeError);
  });
});

describe('sluice keygen', () => {
  it('prints keys in the form that settings take, other ones each time', async () => {
    const [pair, again, master, wrong] = await Promise.all(
      [[], ['access-key'], ['master-key'], ['x']].map((args) => finished(['keygen', ...args])),
    );
    const { accessKey, secretKey } = JSON.parse(pair?.stdout ?? '');
    expect([accessKey, secretKey]).toEqual([
      expect.stringMatching(/^AK[A-Z2-7]{18}$/),
      expect.stringMatching(/^[\w-]{40}$/),
    ]);
    expect(again?.stdout).not.toBe(pair?.stdout);
    expect(masterKeys(master?.stdout ?? '')).toMatchObject({ value: [expect.any(Uint8Array)] });
    expect(wrong?.code).toBe(2);
  });
});

describe('sluice completion', () => {
  const execute = promisify(execFile);
  const completed = [
    ['sluice ad', ['admin']],
    ['sluice admin clusters dr', ['drain', 'drain-impact', 'drain-progress']],
    ['sluice admin clusters drain --m', ['--mode']],
    // Behind names and options too.
    ['sluice admin clusters drain b --json --m', ['--mode']],
  ] as const;
  const scriptFor = async (shell: string): Promise<string> => {
    const script = join(home, `completion.${shell}`);
    await writeFile(script, (await finished(['completion', shell])).stdout);
    return script;
  };
  const wordsOf = (stdout: string) => stdout.split(/\s+/).filter((word) => word !== '');

  it('completes words and options in bash', async () => {
    const script = await scriptFor('bash');
    for (const [line, expected] of completed) {
      const words = line.split(' ').map((word) => `'${word}'`);
      const asked = `source ${script}; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _sluice; echo "\${COMPREPLY[*]}"`;
      expect(wordsOf((await execute('bash', ['-c', asked])).stdout)).toEqual(expected);
    }
  });

  it('completes words and options in fish', async () => {
    const script = await scriptFor('fish');
    for (const [line, expected] of completed) {
      const asked = `source ${script}; complete -C '${line}'`;
      expect(wordsOf((await execute('fish', ['-c', asked], { env })).stdout)).toEqual(expected);
    }
  });

  it('completes words and options in zsh, in a terminal', async () => {
    const script = await scriptFor('zsh');
    for (const [line, expected] of completed) {
      const typed = `zmodload zsh/zpty; zpty -b z zsh -f -i
        zpty -w z 'source ${script}; print RE""ADY'; zpty -r -m z text '*READY*'
        zpty -n -w z $'${line}\t\t'; zpty -r -m z text '*${expected.join('*')}*'; zpty -d z`;
      // It waits for what it expects.
      await execute('zsh', ['-f', '-c', typed], { env: { ...env, TERM: 'dumb' }, timeout: 60_000 });
    }
  });

  it('refuses other shells', async () => {
    expect((await finished(['completion', 'csh'])).code).toBe(2);
  });
});
