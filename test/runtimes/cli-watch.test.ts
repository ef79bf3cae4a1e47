/** `--watch` of the commands that may take long: a live line on standard error, and the result alone on standard output. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CommandWatch } from '../../src/runtime/cli/command-watch.ts';
import { startServer } from '../support/server.ts';
import { virtualClock } from '../support/virtual-clock.ts';
import { sender } from './client.ts';

const root = join(import.meta.dirname, '../..');
let directory: string;
const at = (...names: string[]): string => join(directory, ...names);
const objects = 5;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-watch-'));
  const server = await startServer({ dataDir: at('data') });
  const send = sender({ url: server.url, ...server.credentials.root });
  expect((await send('PUT', '/bucket')).status).toBe(200);
  for (let n = 0; n < objects; n += 1)
    expect((await send('PUT', `/bucket/${n}`, { body: 'x'.repeat(100_000 * n) })).status).toBe(200);
  await server.stop();
});
afterAll(() => rm(directory, { recursive: true, force: true }));

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function sluice(command: string, ...flags: readonly string[]): Promise<Run> {
  const args = [join(root, 'src/runtime/cli.ts'), ...command.split(' '), ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

const whole = String.raw`\[#{20}\] 100 %`;
/** In the order in which an operator moves an installation. */
const commands: readonly (readonly [string, () => readonly string[], readonly RegExp[]])[] = [
  [
    'backup',
    () => ['--data-dir', at('data'), `--to=${at('backup')}`],
    [
      /^backup {2}copies the metadata of this moment$/m,
      new RegExp(`^${whole}  backup  (\\d+) of \\1 files  (.+ KiB|.+ MiB) of \\2  done$`, 'm'),
      /verify {2}\d+ .*versions and extents {2}done$/m,
    ],
  ],
  [
    'restore',
    () => ['--data-dir', at('restored'), `--from=${at('backup')}`],
    [
      new RegExp(`^${whole}  restore  (\\d+) of \\1 files  (.+ KiB|.+ MiB) of \\2  done$`, 'm'),
      /verify {2}\d+ .*versions and extents {2}done$/m,
    ],
  ],
  [
    'meta export',
    () => ['--data-dir', at('data'), `--to=${at('export')}`],
    [/meta export {2}\d+ .*rows {2}done$/m],
  ],
  [
    'meta import',
    () => ['--data-dir', at('moved'), `--from=${at('export')}`],
    [
      new RegExp(`^${whole}  meta import  (\\d+) of \\1 rows  done$`, 'm'),
      new RegExp(`^${whole}  meta import: compare  (\\d+) of \\1 rows  done$`, 'm'),
    ],
  ],
  ['fsck', () => ['--data-dir', at('restored')], [/fsck {2}\d+ .*versions and extents {2}done$/m]],
];

test.each(commands)(
  '%s --watch shows its progress, and prints the same result',
  async (command, flags, shown) => {
    if (command === 'meta import')
      for (const name of ['chunks', 'master.key'])
        await cp(at('data', name), at('moved', name), { recursive: true });
    const watched = await sluice(command, ...flags(), '--json', '--watch');
    expect([watched.code, watched.stderr]).toEqual([0, expect.any(String)]);
    for (const line of shown) expect(watched.stderr).toMatch(line);
    // No control sequences, and no line twice.
    const lines = watched.stderr.trimEnd().split('\n');
    expect(watched.stderr).not.toContain('\u001b');
    expect(new Set(lines).size).toBe(lines.length);
    const report = watched.stdout
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    expect(report).toEqual([expect.any(Object)]);
  },
);

test('without --watch there is no line', async () => {
  expect(await sluice('fsck', '--data-dir', at('data'))).toMatchObject({ code: 0, stderr: '' });
});

test('on a terminal the line is rewritten in place, and removed at the end', async () => {
  const clock = virtualClock();
  let screen = '';
  const watch = new CommandWatch(
    {
      isTTY: true,
      columns: 120,
      write(text: string) {
        screen += text;
        return true;
      },
    },
    clock,
  );
  const visible = (): string => screen.slice(screen.lastIndexOf('\r\u001b[K') + 1).replace('\u001b[K', '');
  const all = 400;
  const at = (count: number) => ({ done: { count }, left: { count: all - count } });
  watch.begin({ kind: 'restore', of: 'files', paced: 'count' }, at(0));
  expect(screen).toBe('[....................]   0 %  restore  0 of 400 files  running');
  expect(watch.isDue).toBe(false);
  await clock.advance(2_000);
  expect(watch.isDue).toBe(true);
  watch.show(at(100));
  expect(visible()).toBe('[#####...............]  25 %  restore  100 of 400 files  50/s  6 s left');
  expect(screen).not.toContain('\n');
  watch.clear();
  expect(visible()).toBe('');
});
