/** A data directory that a test damages: its backup, the gateway over it, and the commands of docs/recovery.md that run on it. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Answer, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { patternOf, type RecoverySection } from './recovery-page.ts';

export const cli = join(import.meta.dirname, '../../src/runtime/cli.ts');
export const patience = { timeout: 180_000, interval: 100 };
const { root } = testCredentials;
/** The bytes of a `large-` key are stored in a separate file, which gc deletes immediately. */
export const bodyOf = (key: string): Buffer =>
  Buffer.from(`content of ${key} `.repeat(key.startsWith('large-') ? 60_000 : 200));

const lastNamed = (name: string, value: string | undefined): Record<string, string> =>
  value === undefined ? {} : { [name]: value };

/** A data directory, its backup, and at most one gateway over it. */
export class Site implements AsyncDisposable {
  readonly own = mkdtempSync(join(tmpdir(), 'sluice-recovery-'));
  readonly dataDir = join(this.own, 'objects');
  readonly backup = join(this.own, 'backup');
  readonly image = join(this.own, 'disk.img');
  settings: Record<string, string> = {};
  /** The output of the section's symptom and commands. */
  seen = '';
  /** Values for the placeholders of the page. */
  placeholders: Record<string, string> = { name: 'bucket', account: root.owner };
  #server: TestServer | undefined;
  #client: LoadClient | undefined;
  isMounted = false;

  get #env(): Record<string, string> {
    return {
      SVC_FSYNC: 'never',
      SVC_DISK_RESERVE: '0',
      SVC_GC_GRACE: '0s',
      SVC_GC_INTERVAL: '100ms',
      SVC_SCRUB_RATE: '0',
      ...this.settings,
    };
  }

  get client(): LoadClient {
    if (this.#client === undefined) throw new Error('no gateway runs');
    return this.#client;
  }

  async start(): Promise<void> {
    if (this.#server !== undefined) return;
    this.#server = await startServer({ dataDir: this.dataDir, env: this.#env });
    this.#client = loadClient(this.#server.url, root);
  }

  async stop(): Promise<void> {
    this.#client?.close();
    const server = this.#server;
    this.#server = undefined;
    this.#client = undefined;
    if (server === undefined) return;
    await server.stop();
    this.seen += server.log();
  }

  /** A start that is refused. */
  async refusedStart(): Promise<void> {
    const refusal = await this.start().then(
      () => 'it served',
      (error: Error) => error.message,
    );
    expect(refusal).toContain('ended with 2');
    this.seen += refusal;
  }

  async put(...keys: readonly string[]): Promise<void> {
    for (const key of keys)
      await this.client.expect({ method: 'PUT', path: pathOf('bucket', key), body: bodyOf(key) });
  }

  async send(method: string, key: string, body?: Buffer): Promise<Answer> {
    const answer = await this.client.send({
      method,
      path: pathOf('bucket', key),
      ...(body === undefined ? {} : { body }),
    });
    this.seen += `\n${answer.status} ${/<Code>(\w+)/.exec(answer.text)?.[1] ?? ''}\n${answer.text}\n`;
    return answer;
  }

  async expectContent(...keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const { status, text } = await this.client.send({ path: pathOf('bucket', key) });
      expect([key, status, text === bodyOf(key).toString()]).toEqual([key, 200, true]);
    }
  }

  async statusOf(key: string): Promise<number> {
    return (await this.client.send({ path: pathOf('bucket', key) })).status;
  }

  /** Runs lines of the page in one shell. @returns their output */
  async run(lines: readonly string[]): Promise<string> {
    const { host = '' } = this.#server === undefined ? {} : new URL(this.#server.url);
    const functions = `
sluice() { "$NODE" ${cli} "$@" || test $? -eq 1; }
sluice-admin() {
  curl --silent --aws-sigv4 aws:amz:default:s3 --user "$KEY:$SECRET" -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \\
    -X "$1" "$ENDPOINT/admin/v1$2" \${3:+--data "$3"}
}`;
    const script = ['set -eu', functions, ...lines.map((line) => this.#filled(line))].join('\n');
    const child = spawn('bash', ['-c', script], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'] ?? '',
        NODE: process.execPath,
        KEY: root.accessKey,
        SECRET: root.secretKey,
        ENDPOINT: `http://${host}`,
        ...this.#env,
      },
    });
    let text = '';
    child.stdout.on('data', (some) => (text += String(some)));
    child.stderr.on('data', (some) => (text += String(some)));
    const [code] = (await once(child, 'close')) as [number | null];
    this.seen += text;
    expect(code, `${lines.join('\n')}\n${text}`).toBe(0);
    return text;
  }

  #filled(line: string): string {
    const id = /bucketId=([0-9a-f]{32})/.exec(this.seen)?.[1];
    const values: Readonly<Record<string, string | undefined>> = { id, ...this.placeholders };
    return line
      .replaceAll('/srv/objects', this.dataDir)
      .replaceAll('/backup', this.backup)
      .replaceAll('/dev/sdX1', this.image)
      .replace(/<(\w+)>/g, (_, name: string) => {
        const value = values[name];
        if (value === undefined) throw new Error(`nothing printed a value for <${name}>: ${this.seen}`);
        return value;
      });
  }

  /** Runs the section's commands unchanged. The last line is repeated until its output is that of the page. */
  async follow({ commands, result }: RecoverySection): Promise<void> {
    this.placeholders = {
      ...this.placeholders,
      ...lastNamed('installation', /of installation ([0-9a-f]{32})/.exec(this.seen)?.[1]),
    };
    this.seen = '';
    let lines: string[] = [];
    const flush = async (): Promise<void> => {
      if (lines.length > 0) await this.run(lines);
      lines = [];
    };
    for (const line of commands) {
      if (!line.startsWith('# ')) {
        // The output of the lines before contains the values that this line names.
        if (line.includes('<')) await flush();
        lines.push(line);
        continue;
      }
      await flush();
      await this.#obey(line);
    }
    await flush();
    const last = commands.at(-1) ?? '';
    const isShown = (): boolean => result.every((line) => patternOf(line).test(this.seen));
    if (last.startsWith('sluice-admin'))
      await expect
        .poll(async () => {
          if (!isShown()) await this.run([last]);
          return isShown();
        }, patience)
        .toBe(true);
    for (const line of result) expect(this.seen).toMatch(patternOf(line));
  }

  async #obey(line: string): Promise<void> {
    switch (line) {
      case '# stop every gateway':
        return this.stop();
      case '# start the gateways':
        return this.start();
      case '# write some objects':
        return this.put(...Array.from({ length: 16 }, (_, n) => `after-${n}`));
      default:
        throw new Error(`the test does not know what to do about "${line}"`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    if (this.isMounted) spawnSync('umount', ['-l', this.dataDir]);
    rmSync(this.own, { recursive: true, force: true });
  }
}

/** Mounts a separate file system under the data directory. */
export function mount(site: Site, mebibytes: number): void {
  mkdirSync(site.dataDir);
  const make = `truncate -s ${mebibytes}M ${site.image} && mkfs.ext4 -q -F -m 0 -O ^has_journal ${site.image} && mount -o loop,errors=remount-ro ${site.image} ${site.dataDir}`;
  const { status, stderr } = spawnSync('sh', ['-c', make], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  site.isMounted = true;
}
