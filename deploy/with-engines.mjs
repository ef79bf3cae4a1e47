// Makes the client libraries of engines and event targets, which are optional peer dependencies of the npm package, dependencies of an image or a
// Debian package: with-engines.mjs DIRECTORY, before `npm ci --omit=dev`. The versions are those of the development dependencies, which package-lock.json has.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const path = join(process.argv[2] ?? '.', 'package.json');
const { peerDependencies, peerDependenciesMeta: _, devDependencies, ...manifest } = JSON.parse(readFileSync(path, 'utf8'));
const engines = Object.keys(peerDependencies).map((name) => [name, devDependencies[name]]);
const others = Object.entries(devDependencies).filter(([name]) => !(name in peerDependencies));
const dependencies = { ...manifest.dependencies, ...Object.fromEntries(engines) };
writeFileSync(path, `${JSON.stringify({ ...manifest, dependencies, devDependencies: Object.fromEntries(others) }, undefined, 2)}\n`);
