/** The command line of the bench. */
import { availableParallelism, tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import {
  type Case,
  caseOf,
  fullCases,
  matrixCases,
  matrixTargets,
  quickCases,
  quickTargets,
  sizes,
} from './cases.ts';
import { isOperation, operations } from './operations.ts';
import { targets } from './targets.ts';

export interface Flags {
  readonly targets: readonly string[];
  readonly cases: readonly Case[];
  readonly clients: number;
  readonly seconds: number;
  readonly rounds: number;
  readonly generators: number;
  readonly processes: string;
  readonly directory: string;
  readonly checkout: string | undefined;
  /** Whether a table of all cases stands at the end, beside the peer. */
  readonly isMatrix: boolean;
}

export const usage = `npm run bench -- [flags]

  --quick            the cases and targets that the goals need, in four minutes on an idle machine
  --matrix           the load of a public load generator: the clients sleep while they wait, bodies have signed chunks and trailers
  --target=a,b       ${Object.keys(targets).join(', ')}
                     (default: all but those on Ceph, of another checkout, and the floors; the peer is built with Go, once)
  --op=a,b           ${Object.keys(operations).join(', ')}
  --size=a,b         ${Object.keys(sizes).join(', ')}, or a number of bytes
  --clients=16       connections at a time
  --seconds=4        of measuring, for each case and target (--quick: 1.2)
  --rounds=2         turns that these are cut into, the targets alternating
  --generators=N     processes that make the load (default: one for every two cores; --matrix: 4)
  --processes=1      SVC_PROCESSES of this gateway where its backends can share
  --dir=PATH         where data directories are made (default: the system's temporary directory)
  --checkout=PATH    another checkout of this project, with its packages: the targets "other…"
`;

const usualTargets = Object.keys(targets).filter((name) => targets[name]?.onlyNamed !== true);

const list = (text: string | undefined): readonly string[] | undefined =>
  text?.split(',').filter((each) => each !== '');

function sizeOf(name: string): number {
  const size = sizes[name] ?? Number(name);
  if (!Number.isSafeInteger(size) || size < 1)
    throw new Error(`--size=${name} is none of ${Object.keys(sizes).join(', ')} and no number`);
  return size;
}

/** The cases of the plan that match; if none does, a new case for the given operation and size. */
function casesOf(
  plan: readonly Case[],
  ops: readonly string[] | undefined,
  bytes: readonly number[] | undefined,
): readonly Case[] {
  const found = plan.filter(
    ({ operation, size }) => (ops?.includes(operation) ?? true) && (bytes?.includes(size) ?? true),
  );
  if (found.length > 0 || ops === undefined) return found;
  const asked = ops.filter(isOperation);
  return asked.flatMap((operation) => (bytes ?? [4096]).map((size) => caseOf(operation, size)));
}

export function readFlags(args: readonly string[]): Flags | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      matrix: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      target: text,
      op: text,
      size: text,
      clients: text,
      seconds: text,
      rounds: text,
      generators: text,
      processes: text,
      dir: text,
      checkout: text,
    },
  });
  if (values.help) return undefined;
  const { matrix: isMatrix, quick } = values;
  const [plan, planned] = isMatrix
    ? [matrixCases, matrixTargets]
    : quick
      ? [quickCases, quickTargets]
      : [fullCases, usualTargets];
  const chosen = list(values.target) ?? planned;
  for (const name of chosen)
    if (!Object.hasOwn(targets, name)) throw new Error(`--target=${name} is not known`);
  const ops = list(values.op);
  for (const name of ops ?? []) if (!isOperation(name)) throw new Error(`--op=${name} is not known`);
  return {
    targets: chosen,
    cases: casesOf(plan, ops, list(values.size)?.map(sizeOf)),
    clients: Number(values.clients ?? 16),
    seconds: Number(values.seconds ?? (quick ? 1.2 : 4)),
    rounds: Number(values.rounds ?? 2),
    generators: Number(values.generators ?? (isMatrix ? 4 : Math.max(1, availableParallelism() >> 1))),
    processes: values.processes ?? '1',
    directory: values.dir ?? tmpdir(),
    checkout: values.checkout,
    isMatrix,
  };
}
