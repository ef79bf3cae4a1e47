/** Words and patterns that the source may not contain, each with its replacement; and the shape of files. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sourceFiles } from './source-files.ts';

interface Banned {
  readonly word: RegExp;
  readonly instead: string;
  /** The files in which the pattern is allowed. */
  readonly except?: RegExp;
}

const banned: readonly Banned[] = [
  {
    word: /\bDate\.now\(/,
    instead: 'ctx.clock.now()',
    // The TiKV client could be a package of its own, and only asks whether the machine has slept.
    except: /^src\/(ports\/clock|runtime\/|telemetry\/|backends\/tikv\/timestamps)/,
  },
  { word: /\bMath\.random\(/, instead: 'ctx.random' },
  {
    word: /['"`]x-(amz|store)-/i,
    instead: 'protocol/dialect.ts',
    // Events are documents of the public API, whatever the dialect of the request.
    except: /^src\/(protocol\/dialect|domain\/events\/events)\.ts$/,
  },
  {
    word: /'\*-[a-z]|\bAllow: '|'Last-Modified'|\b[Mm]ethod: '/,
    instead:
      'a detail of the refusal (protocol/render.ts), or a header in src/handlers: the domain knows no HTTP',
    // Replication sends requests to other services. Everything else may.
    except: /^src\/(?!domain\/)|^src\/domain\/replication\//,
  },
  {
    word: /\bbytes\.write\(/,
    instead: 'storeBytes of content/store-bytes.ts, which refuses a cluster that was found empty meanwhile',
    // A move refuses it itself. The probe removes its bytes.
    except:
      /^src\/(?!domain\/)|^src\/domain\/(content\/store-bytes|rebalance\/move-version|clusters\/readiness)\.ts$/,
  },
  {
    word: /\bopenTurns\(/,
    instead:
      'openCallTurns of handlers/admin/call.ts, whose result the domain gets: turns are shared out by account',
    // Works of the process itself have no account.
    except:
      /^src\/(auth\/identity-policies|domain\/common\/turns|handlers\/(admin\/call|bucket\/delete-objects)|workers\/.*)\.ts$/,
  },
  { word: /\bas any\b|: any\b/, instead: 'a real type', except: /^src\/ports\/metadata-store\.ts$/ },
  { word: /process\.env/, instead: 'config.ts', except: /^src\/runtime\// },
  {
    word: /from 'fast-xml-parser'/,
    instead: 'protocol/formats/xml-parse.ts, which reads linearly and bounds texts',
  },
  {
    word: /transactionSync\(/,
    instead: 'transaction(): the synchronous one hangs at close behind an asynchronous write',
    // The first write of a store; and the compaction, which has no asynchronous writes.
    except: /^src\/backends\/metadata\/embedded\/exclusive-use\.ts$/,
  },
  {
    word: /[\w\])>] \| Promise</,
    instead: 'Promise<T>, or Awaitable<T> for a callback (docs/adr/0018-functions-return-promises.md)',
    except: /^src\/base\/awaitable\.ts$/,
  },
  { word: /\bconsole\.(log|error|warn)\(/, instead: 'telemetry.log', except: /^src\/(runtime|telemetry)\// },
  { word: /\b(TODO|FIXME|XXX)\b/, instead: 'an issue' },
  {
    word: /new TextDecoder\(\)/,
    instead:
      'ignoreBOM: true, because a text of a tenant may begin with U+FEFF; an option says so where it may not',
    except: /^src\/(auth\/sigv2|protocol\/formats\/codec|runtime\/)/,
  },
  {
    word: /new TextDecoder\([^)]/,
    instead: 'base/text/utf8.ts',
    // A request without a body would enter one more file. The chain of chunks is in Latin-1.
    except:
      /^src\/(base\/text\/utf8|auth\/(chunk-chain|verify-signature)|backends\/metadata\/(key-order|memory-rows)|protocol\/wire|request\/parameters)\.ts$/,
  },
];

test('banned words stay out', () => {
  const hits = sourceFiles().flatMap((path) => {
    const source = readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    return banned
      .filter(({ word, except }) => word.test(source) && !except?.test(path))
      .map(({ word, instead }) => `${path}: ${word.source} → use ${instead}`);
  });
  expect(hits).toEqual([]);
});

/** Words that said how we felt about a value, and the term that says what it is. They may not come back in an identifier. */
const renamed: Readonly<Record<string, string>> = {
  believed: 'cached, expected',
  complain: 'report',
  complaint: 'problem, warning, failure',
  complaints: 'problems, warnings, failures',
  deserts: 'tombstones',
  entrust: 'delegate',
  entrusted: 'delegated',
  foreign: 'unmanaged',
  given: 'input, requested, expected',
  harvest: 'reap',
  heed: 'subscribe, follow',
  held: 'pending, leased, reserved, buffered',
  judge: 'authorize, evaluate, examine',
  judged: 'authorized, evaluated, examined',
  judges: 'authorizes, authorization',
  kept: 'stored, cached, retained',
  lent: 'loaned, borrowed',
  mend: 'repair',
  mended: 'repaired',
  mending: 'repair',
  naming: 'reference, name',
  namings: 'references, names',
  onlooker: 'observer',
  room: 'reservation, free space',
  shown: 'displayed, visible',
  told: 'reported, known',
  vouching: 'verification',
  wanted: 'requested, expected',
  wish: 'constraint',
};

/**
 * Names that stored rows, replies of the operator API, metrics and printed summaries have, so that a release would not
 * read the former ones.
 */
const published: Readonly<Record<string, RegExp>> = {
  foreign:
    /^(backends\/data\/upstream-store\/store|domain\/(common\/garbage|fsck\/(owners|rows)|objects\/read-object|storage\/import)|metadata\/background\/queues|ports\/object-bytes|runtime\/cli\/cli-import|telemetry\/(timed-backends|traced-ports))\.ts$/,
  held: /^domain\/(lifecycle\/progress|rebalance\/evacuations)\.ts$/,
  isHeld: /^(handlers|protocol)\/admin\/system\.ts$/,
  kept: /^(domain\/buckets\/force-empty|handlers\/admin\/(bucket-tasks|support-bundle)|ports\/trace|protocol\/admin\/(buckets|observability)|runtime\/backup\/(cli-backup|copy-chunks)|telemetry\/(trace-ring|tracer))\.ts$/,
  keptBytes: /^runtime\/backup\//,
  keptFrom: /^(domain\/events\/(seal-hours|verify-audit)|metadata\/audit)\.ts$/,
  svc_access_log_kept_total: /^metrics\//,
  svc_replication_given_up_total: /^metrics\//,
};

/** The source without comments, strings and templates. */
const codeOf = (source: string): string =>
  source.replace(
    /\/\*[\s\S]*?\*\/|\/\/.*$|(?<=[\s(])"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/gm,
    '',
  );

test('identifiers are made of standard terms', () => {
  const hits = sourceFiles().flatMap((path) =>
    [...new Set(codeOf(readFileSync(path, 'utf8')).match(/[A-Za-z_]\w*/g) ?? [])].flatMap((name) =>
      name
        .split(/(?<=[a-z0-9])(?=[A-Z])|_/)
        .map((word) => word.toLowerCase())
        .filter((word) => Object.hasOwn(renamed, word) && !published[name]?.test(path.slice('src/'.length)))
        .map((word) => `${path}: ${name} → ${renamed[word]}`),
    ),
  );
  expect(hits).toEqual([]);
});

test('every file opens by saying what it is for', () => {
  const silent = sourceFiles().filter((path) => !/^(#!.*\n)?\/\*\*/.test(readFileSync(path, 'utf8')));
  expect(silent).toEqual([]);
});

test('a docstring stands at what it describes: none follows another', () => {
  const hits = sourceFiles().filter((path) => /\*\/\n *\/\*\*/.test(readFileSync(path, 'utf8')));
  expect(hits).toEqual([]);
});

test('a docstring stands at what it describes: neither an empty line nor the end of the file follows it', () => {
  const files = ['src', 'console', 'test'].flatMap((folder) => sourceFiles(folder));
  const hits = files.filter((path) => {
    const rest = readFileSync(path, 'utf8').replace(/^(#!.*\n)?\/\*\*[\s\S]*?\*\//, '');
    return /\*\/[ \t]*(\n[ \t]*\n|\s*$)/.test(rest);
  });
  expect(hits).toEqual([]);
});

test('files are kebab-case and have 700 lines at most', () => {
  const wrong = sourceFiles().filter(
    (path) => /[A-Z_]/.test(path) || readFileSync(path, 'utf8').split('\n').length > 700,
  );
  expect(wrong).toEqual([]);
});

test('nothing names the host of a package registry', () => {
  const lock = readFileSync('package-lock.json', 'utf8');
  expect(lock).not.toMatch(/"resolved":/);
});
