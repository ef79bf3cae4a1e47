/** A process that must end immediately does, also as the first process of a container, which a signal to itself does not end. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const file = new URL('../../src/runtime/processes/process-exit.ts', import.meta.url).href;
const script = `const { endAtOnce } = await import(${JSON.stringify(file)}); endAtOnce(); console.log('alive');`;
const node = [process.execPath, '--input-type=module', '-e', script];
const asFirst = ['--user', '--map-root-user', '--pid', '--fork'];
const canBeFirst = spawnSync('unshare', [...asFirst, 'true']).status === 0;

test('nothing runs after the end of a process', () => {
  const { signal, stdout } = spawnSync(process.execPath, node.slice(1), { encoding: 'utf8' });
  expect({ signal, stdout }).toEqual({ signal: 'SIGKILL', stdout: '' });
});

test.skipIf(!canBeFirst)('of the first process of a container, either', () => {
  const { status, stdout } = spawnSync('unshare', [...asFirst, ...node], { encoding: 'utf8' });
  expect(stdout).toBe('');
  expect(status).not.toBe(0);
});
