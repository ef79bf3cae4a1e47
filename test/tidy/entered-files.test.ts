/** One request enters few files, so that a reader can follow it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

// A process of its own, because the coverage of V8 counts the modules of Node, and not those that Vitest has transformed.
test('a PUT, a GET and a LIST enter no more files than their bounds', async () => {
  const program = spawn(process.execPath, [join(import.meta.dirname, 'entered-files.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output, [code]] = await Promise.all([text(program.stdout), once(program, 'exit')]);
  expect(output.match(/^files that one \w+ enters/gm)).toHaveLength(3);
  expect(code, `${output}\nnode test/tidy/entered-files.ts --list names them`).toBe(0);
});
