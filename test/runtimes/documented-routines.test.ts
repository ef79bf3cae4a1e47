/**
 * The shell commands of docs/operations and docs/status.md, run in their order as they are written, against gateways of
 * which they speak.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installed } from '../clients/installed.ts';
import { blockOf, endless, routines } from '../support/documented-routines.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { cliPath } from './command.ts';

const run = promisify(execFile);
const accounts = {
  operator: {
    accessKey: 'AKROUTINESOPERATOR00',
    secretKey: 'secret-of-the-operator-00',
    owner: 'root',
    root: true,
    operator: true,
  },
  alice: {
    accessKey: 'AKROUTINESALICE00000',
    secretKey: 'secret-of-alice-00000000',
    owner: 'alice',
    root: true,
  },
};

describe('the routines', () => {
  let directory = '';
  let near: TestServer;
  let far: TestServer;
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'sluice-routines-'));
    const credentials = join(directory, 'credentials.json');
    writeFileSync(credentials, JSON.stringify(Object.values(accounts)), { mode: 0o600 });
    const [targets = ''] =
      /(?<=SVC_NOTIFY_TARGETS=')[^']*/.exec(blockOf("operations/events.md: SVC_NOTIFY_TARGETS='[{") ?? '') ??
      [];
    const env = {
      SVC_CREDENTIALS_FILE: credentials,
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
      SVC_GC_GRACE: '0s',
      SVC_INTENT_TTL: '1s',
      SVC_GC_INTERVAL: '100ms',
      SVC_REBALANCE_INTERVAL: '100ms',
    };
    [near, far] = await Promise.all([
      startServer({
        dataDir: join(directory, 'data'),
        env: {
          ...env,
          SVC_POOL_CLUSTERS: 'a,b',
          SVC_NOTIFY_TARGETS: targets.replace('…', Buffer.alloc(32, 7).toString('base64')),
        },
      }),
      startServer({ env }),
    ]);
    for (const bucket of ['photos', 'books']) {
      await shell(`aws s3api create-bucket --bucket ${bucket}`, 'alice');
      await shell(
        `aws s3api put-bucket-versioning --bucket ${bucket} --versioning-configuration Status=Enabled`,
        'alice',
      );
    }
    await shell(`echo bytes | aws s3 cp - s3://books/a`, 'alice');
  });
  afterAll(async () => {
    await near?.stop();
    await far?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Runs commands as an operator in a shell that ends at the first failure. @returns what they print */
  async function shell(commands: string, aws: 'alice' | 'far' = 'alice'): Promise<string> {
    const script = `set -euo pipefail\nsluice() { node '${cliPath}' "$@"; }\n${commands}`;
    const { stdout } = await run('bash', ['-c', script], {
      cwd: directory,
      env: {
        PATH: [dirname(process.execPath), dirname(installed('aws')), process.env['PATH']].join(':'),
        HOME: directory,
        SLUICE_ENDPOINT: near.url,
        SLUICE_ACCESS_KEY: accounts.operator.accessKey,
        SLUICE_SECRET_KEY: accounts.operator.secretKey,
        AWS_ENDPOINT_URL: aws === 'far' ? far.url : near.url,
        AWS_ACCESS_KEY_ID: accounts.alice.accessKey,
        AWS_SECRET_ACCESS_KEY: accounts.alice.secretKey,
        AWS_DEFAULT_REGION: 'default',
        AWS_EC2_METADATA_DISABLED: 'true',
        FAR: far.url,
        DATA: join(directory, 'data'),
      },
    });
    return stdout;
  }

  /** Runs a block as its page has it, after what the page presupposes. */
  async function runRoutine(name: string): Promise<string> {
    const routine = routines[name];
    if (routine === undefined) throw new Error(`${name} has no routine`);
    const { before = '', after = '', replaced = {}, aws } = routine;
    let commands = blockOf(name) ?? '';
    for (const [text, instead] of Object.entries(replaced)) {
      expect(commands).toContain(text);
      commands = commands.replaceAll(text, () => instead);
    }
    return shell([before, commands.replaceAll(endless, ''), after].join('\n'), aws);
  }

  const runs = Object.entries(routines).map(([name, routine]) => ({ name, ...routine }));
  const long = new Map<string, Promise<string>>();
  test('that take long begin', () => {
    for (const { name } of runs.filter(({ isLong }) => isLong)) {
      const output = runRoutine(name);
      // It is awaited in its own test.
      output.catch(() => undefined);
      long.set(name, output);
    }
    expect(long.size).toBeGreaterThan(0);
  });

  const shortFirst = runs.toSorted((a, b) => Number(a.isLong ?? false) - Number(b.isLong ?? false));
  test.each(shortFirst)('docs/$name', async ({ name, prints = /(?:)/ }) => {
    expect(await (long.get(name) ?? runRoutine(name))).toMatch(prints);
  });
});
