/** deno.json and package.json agree on the dependencies and the version. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const read = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../..', name), 'utf8'));
const [deno, npm] = [read('deno.json'), read('package.json')];

test('the import map of Deno holds every dependency at its version', () => {
  const versions = Object.entries({
    ...(npm['dependencies'] as Record<string, string>),
    ...(npm['optionalDependencies'] as Record<string, string>),
  });
  expect(deno['imports']).toEqual(
    Object.fromEntries(versions.map(([name, version]) => [name, `npm:${name}@${version}`])),
  );
});

test('Deno publishes the same version', () => {
  expect(deno['version']).toBe(npm['version']);
});
