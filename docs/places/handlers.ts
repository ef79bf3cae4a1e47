/** Which file answers an operation, and which files of the domain it calls. */
import { type Binding, bindingOf, findExport, type Syntax, sources } from './source.ts';

function* within(node: unknown): Generator<Syntax> {
  if (typeof node !== 'object' || node === null) return;
  if (!Array.isArray(node) && typeof (node as Syntax).type === 'string') yield node as Syntax;
  for (const inner of Object.values(node)) yield* within(inner);
}

/** The top-level declarations, of any file, that the code below a node names. */
const namedIn = (code: Syntax): ReadonlySet<Binding> =>
  new Set(
    [...within(code)].flatMap((node) => {
      const used = node.type === 'Identifier' ? bindingOf(node) : undefined;
      return used !== undefined && sources.get(used.file)?.topLevel.get(used.name) === used ? [used] : [];
    }),
  );

const named = new Map<Binding, ReadonlySet<Binding>>();

function namedBy(binding: Binding): ReadonlySet<Binding> {
  if (binding.is.kind !== 'value') return new Set();
  const found = named.get(binding) ?? namedIn(binding.is.node);
  named.set(binding, found);
  return found;
}

/** The declarations that code names, also through other declarations for which `follows` holds. */
export function reached(code: Syntax, follows: (binding: Binding) => boolean): ReadonlySet<Binding> {
  const found = new Set(namedIn(code));
  for (const binding of found) if (follows(binding)) for (const each of namedBy(binding)) found.add(each);
  return found;
}

export interface HandlerPlaces {
  readonly file: string;
  /** The files of the domain whose functions it calls, itself or through files of `src/handlers`. */
  readonly domain: ReadonlySet<string>;
}

/** The handlers that a table joins, by operation: each file exports them by these names. */
export function findHandlers(table: string, names: readonly string[]): ReadonlyMap<string, HandlerPlaces> {
  const joined = [...(sources.get(table)?.topLevel.values() ?? [])].flatMap(({ is }) =>
    is.kind === 'import' && is.imported === '*' ? [is.from] : [],
  );
  return new Map(
    names.flatMap((name) => {
      const handler = joined.map((file) => findExport(file, name)).find((binding) => binding !== undefined);
      if (handler === undefined) return [];
      if (handler.is.kind !== 'value') return [];
      const all = reached(handler.is.node, ({ file }) => file.startsWith('src/handlers/'));
      const files = [...all].map(({ file }) => file).filter((file) => file.startsWith('src/domain/'));
      return [[name, { file: handler.file, domain: new Set(files) }] as const];
    }),
  );
}
