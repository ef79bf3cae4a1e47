/**
 * `node test/tidy/walk.ts` prints the walk of an operator request and of a lifecycle pass through the files of the layers that decide. A
 * climb is a step into a higher layer, a return a step into a file that the walk has left before. `--list` names the files in order.
 */
import { readFileSync } from 'node:fs';
import { registerHooks, stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'rolldown/parseAst';

const walk: string[] = [];
let isWalking = false;
Object.assign(globalThis, {
  enterFile(file: string): void {
    if (isWalking && walk.at(-1) !== file) walk.push(file);
  },
});

interface Node {
  readonly type?: string;
  readonly start: number;
  readonly end: number;
  readonly body?: Node;
}

/** Each function says which file is entered. */
function announce(source: string, file: string): string {
  const insertions: (readonly [at: number, text: string])[] = [];
  const call = `enterFile(${JSON.stringify(file)})`;
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    // The cast: the nodes of a syntax tree have these fields, and arrays of them have none.
    const { type = '', body } = node as Node;
    if (/Function/.test(type) && body?.type === 'BlockStatement')
      insertions.push([body.start + 1, `${call};`]);
    else if (type === 'ArrowFunctionExpression' && body !== undefined)
      insertions.push([body.start, `(${call},`], [body.end, ')']);
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseAst(source));
  let text = source;
  for (const [at, added] of insertions.toSorted(([a], [b]) => b - a))
    text = text.slice(0, at) + added + text.slice(at);
  return text;
}

registerHooks({
  load(url, context, next) {
    if (!/\/src\/.*\.ts$/.test(url)) return next(url, context);
    const path = fileURLToPath(url);
    const source = stripTypeScriptTypes(readFileSync(path, 'utf8'));
    return {
      format: 'module',
      source: announce(source, path.slice(path.indexOf('/src/') + 5)),
      shortCircuit: true,
    };
  },
});

// After the hooks, which see what is imported from here on.
const { openSignedGateway } = await import('./signed-gateway.ts');
const { send, close } = await openSignedGateway({
  workers: ['lifecycle'],
  lifecycleInterval: '1s',
  lifecycleDay: '1s',
});

/** The layers that decide, from the lowest. */
const layers = ['metadata', 'domain', 'auth', 'handlers', 'workers'];
const rankOf = (file: string): number => layers.indexOf(file.split('/')[0] ?? '');

function print(what: string, files: readonly string[]): void {
  const own = files.filter((file) => rankOf(file) >= 0).filter((file, at, all) => file !== all[at - 1]);
  const climbs = own.filter((file, at) => at > 0 && rankOf(file) > rankOf(own[at - 1] ?? file)).length;
  const entered = new Set(own).size;
  console.log(`${what}: ${entered} files, ${climbs} climbs, ${own.length - entered} returns`);
  if (process.argv.includes('--list')) console.log(own.join('\n'));
}

await send({ method: 'PUT', path: '/walked' });
for (let warmUp = 0; warmUp < 20; warmUp += 1) await send({ path: '/admin/v1/buckets/walked' });
isWalking = true;
await send({ path: '/admin/v1/buckets/walked' });
isWalking = false;
print('an operator request (GetBucket)', walk.splice(0));

const rule =
  '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule>';
const body = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
await send({ method: 'PUT', path: '/walked', query: { lifecycle: '' }, body });
await send({ method: 'PUT', path: '/walked/key', body: 'due' });
isWalking = true;
for (let waits = 0; waits < 200 && !walk.includes('domain/objects/versions.ts'); waits += 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
await new Promise((resolve) => setTimeout(resolve, 500));
isWalking = false;
const expires = walk.indexOf('domain/objects/versions.ts');
const begins = walk.lastIndexOf(
  'workers/lifecycle.ts',
  walk.lastIndexOf('domain/lifecycle/walk.ts', expires),
);
print(
  'a pass of lifecycle that expires an object',
  walk.slice(begins, walk.indexOf('workers/supervisor.ts', expires)),
);
await close();
