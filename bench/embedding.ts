/**
 * What an application pays for the library: packages and size of an installation of the packed tarball, the time to
 * import it and to open a gateway, and the memory of the process. `node bench/embedding.ts`; it needs npm and takes a
 * minute.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const top = mkdtempSync(join(tmpdir(), 'sluice-embedding-'));
const project = join(top, 'project');
/** Each figure is the median of so many processes. */
const runs = 5;

const toMebibytes = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1);

function npm(args: readonly string[], cwd: string): void {
  execFileSync('npm', args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}

interface Measured {
  /** From the start of the import, in ms. */
  readonly importMs: number;
  readonly readyMs: number;
  /** Bytes of the process, then. */
  readonly rss: number;
}

/** @param open an expression that opens a gateway; absent: the import alone */
function measure(entry: string, open?: string): Measured {
  const script = `
    const begun = performance.now();
    const { openGateway, memory, directory } = await import('${entry}');
    const importMs = performance.now() - begun;
    const gateway = ${open ?? 'undefined'};
    if (gateway) await gateway.fetch(new Request('http://127.0.0.1/healthz'));
    console.log(JSON.stringify({ importMs, readyMs: performance.now() - begun, rss: process.memoryUsage.rss() }));
    await gateway?.close();
    process.exit(0);`;
  const all = Array.from({ length: runs }, (): Measured => {
    rmSync(join(project, 'data'), { recursive: true, force: true });
    const args = ['--input-type=module', '--eval', script];
    return JSON.parse(execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8' }));
  });
  const median = (name: keyof Measured): number =>
    all.map((each) => each[name]).toSorted((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN;
  return { importMs: median('importMs'), readyMs: median('readyMs'), rss: median('rss') };
}

try {
  mkdirSync(project);
  npm(['pack', '--silent', '--pack-destination', top], root);
  const tarball = readdirSync(top).find((name) => name.endsWith('.tgz')) ?? '';
  writeFileSync(join(project, 'package.json'), '{"private":true,"type":"module"}');
  npm(['install', '--silent', '--prefer-offline', '--no-audit', '--no-fund', join(top, tarball)], project);
  const modules = join(project, 'node_modules');
  const files = readdirSync(modules, { recursive: true, encoding: 'utf8' });
  const packages = files.filter((path) =>
    /(?:^|node_modules\/)(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path),
  );
  const sizes = files.map((path) => statSync(join(modules, path))).filter((found) => found.isFile());
  const bytes = sizes.reduce((sum, { size }) => sum + size, 0);
  const packed = statSync(join(top, tarball)).size;
  console.log(
    `tarball ${toMebibytes(packed)} MiB; installed ${packages.length} packages, ${toMebibytes(bytes)} MiB`,
  );

  const credentials = `credentials: [{ accessKey: 'KEY', secretKey: 'a-long-secret', owner: 'me' }]`;
  const rows = {
    'node alone': measure('node:path'),
    "import 'sluice'": measure('sluice'),
    "import 'sluice/node'": measure('sluice/node'),
    'openGateway, memory()': measure('sluice', `await openGateway({ ${credentials}, storage: memory() })`),
    'openGateway, directory()': measure(
      'sluice',
      `await openGateway({ ${credentials}, storage: directory('./data') })`,
    ),
  };
  console.table(
    Object.fromEntries(
      Object.entries(rows).map(([name, { importMs, readyMs, rss }]) => [
        name,
        {
          'import ms': Math.round(importMs),
          'first answer ms': Math.round(readyMs),
          'RSS MiB': toMebibytes(rss),
        },
      ]),
    ),
  );
} finally {
  rmSync(top, { recursive: true, force: true });
}
