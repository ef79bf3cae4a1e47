/** Writes `docs/reference/*.md` from the tables; with `--check` it only says which pages are stale. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { settingByOption, toFlag, toOption } from '../src/config/read-config.ts';
import type { Setting } from '../src/config/setting.ts';
import { settingNames, settings } from '../src/config.ts';
import { tables } from '../src/metadata/tables.ts';
import type { MetricRow } from '../src/metrics/metric-row.ts';
import { metricTable } from '../src/metrics/metrics.ts';
import type { AnyTable } from '../src/ports/metadata-store.ts';
import { adminOpenApi } from '../src/protocol/admin/openapi.ts';
import { adminOperationNames, describeAdminOperation } from '../src/protocol/admin/operations.ts';
import { errorCatalogue } from '../src/protocol/errors.ts';
import { describeOperation, operationNames } from '../src/protocol/operations/operations.ts';
import { adminSections } from './admin-page.ts';
import { code, table } from './markdown.ts';
import { placesPage } from './places/page.ts';
import { notes, publicOperations, sameRequest, withoutRow } from './public-api.ts';

interface Page {
  readonly title: string;
  readonly source: string;
  readonly intro: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** What follows the table. */
  readonly rest?: string;
}

function settingRow(name: (typeof settingNames)[number]): readonly string[] {
  const setting: Setting<unknown> = settings[name];
  const fallback =
    setting.fallback === undefined ? 'unset' : setting.fallback === '' ? 'empty' : code(setting.fallback);
  const from = setting.fallbackFrom === undefined ? '' : `; ${setting.fallbackFrom.doc}`;
  const outside = setting.outside === 'clamped' ? ' (clamped, with a warning)' : '';
  const secret = setting.secret === true ? ' Secret: never shown.' : '';
  return [
    code(name),
    code(toFlag(name)),
    setting.kind,
    `${fallback}${from}`,
    setting.range === undefined ? '' : `${setting.range}${outside}`,
    `${setting.doc}${secret}`,
  ];
}

const settingsPage: Page = {
  title: 'Settings',
  source: 'src/config.ts',
  intro: [
    'Every setting is an environment variable and a flag of `sluice serve`; the flag wins. An empty variable counts',
    'as unset, except `SVC_WORKERS`, whose empty value is the empty list. Durations are Go durations (`90s`, `1h30m`),',
    'also in days (`30d`); sizes are binary (`512MiB`). A value outside its range is refused unless the table says that',
    'it is clamped; all faults are told at once, and the process exits with code 2.',
  ].join('\n'),
  columns: ['variable', 'flag', 'value', 'default', 'range', 'meaning'],
  rows: settingNames.map(settingRow),
};

/** The names of settings in a text, as options. */
const inOptions = (text: string): string =>
  text.replaceAll(/\bSVC_[A-Z0-9_]+/g, (name) => {
    const option = toOption(name);
    return settingByOption.has(option) ? option : name;
  });

/** The type of the values of a kind, in TypeScript. */
function optionType(name: (typeof settingNames)[number]): string {
  const { kind }: Setting<unknown> = settings[name];
  if (kind === '`on` or `off`' || kind === '`true` or `false`') return 'boolean';
  if (/^`[^`]+`(?: or `[^`]+`)+$/.test(kind)) return kind.replaceAll('`', "'").replaceAll(' or ', ' | ');
  if (kind === 'whole number' || kind === 'power of two') return 'number';
  if (kind === 'size') return 'string | number';
  if (kind === 'JSON object') return 'object';
  if (kind.startsWith('JSON array')) return `Config['${name}']`;
  if (kind.startsWith('comma') && kind.includes('JSON array')) return 'string | readonly object[]';
  return kind.startsWith('comma') ? 'string | readonly string[]' : 'string';
}

/** Those that have a type of their own in gateway-opener.ts. */
const typedByHand: ReadonlySet<string> = new Set(['SVC_CREDENTIALS', 'SVC_WORKERS']);
const optionNames = [...settingByOption.values()].filter((name) => !typedByHand.has(name));

function describeOption(name: (typeof settingNames)[number]): string {
  const { doc, fallback, range, kind }: Setting<unknown> = settings[name];
  const given = fallback === undefined || fallback === '' ? '' : ` Default \`${fallback}\`.`;
  const between = range === undefined ? '' : ` In ${range}.`;
  const how =
    kind === 'duration'
      ? ' A duration such as `90s`.'
      : kind === 'size'
        ? ' Bytes, or a size such as `512MiB`.'
        : '';
  return inOptions(`${doc}${how}${given}${between}`).replaceAll('*/', '*\u200b/');
}

const optionsPage: Page = {
  title: 'Options of openGateway',
  source: 'src/config.ts',
  intro: [
    'Every [setting](settings.md) that an application can use, as an option in camel case. Beside them: `credentials`, `storage`, `workers`,',
    '`basePath`, `telemetry`, and the hooks of [embedding](../embedding.md). Settings of the server, the log and the exporter of `sluice serve`',
    'are no options. Wrong options are refused together, each with what would be right; so are `null` and empty texts, while `undefined` leaves an option out.',
  ].join('\n'),
  columns: ['option', 'type', 'default', 'range', 'meaning'],
  rows: optionNames.map((name) => {
    const [, , kind = '', fallback = '', range = '', meaning = ''] = settingRow(name);
    const type = optionType(name);
    const shown =
      type.startsWith('Config[') || type === 'object' || type.startsWith("'")
        ? kind
        : `${code(type)}: ${kind}`;
    return [code(toOption(name)), shown, inOptions(fallback), range, inOptions(meaning)];
  }),
};

const optionsModule = `/** The settings as options of \`openGateway\`. Generated from src/config.ts by \`npm run docs\`; edit that file instead. */
import type { Config } from './config.ts';

export interface SettingOptions {
${optionNames
  .map(
    (name) =>
      `  /** ${describeOption(name)} */\n  readonly ${toOption(name)}?: ${optionType(name)} | undefined;`,
  )
  .join('\n')}
}
`;

const servedNames = operationNames.filter((name) => describeOperation(name).leftOut === undefined);

const operationsPage: Page = {
  title: 'Operations',
  source: 'src/protocol/operations/operations.ts',
  intro: [
    'The request that asks for an operation: method, scope, query names (`?`) and dialect headers (`+`). The row with',
    'the most marks that matches wins.',
  ].join('\n'),
  columns: ['operation', 'request', 'policy action', 'audited', 'body at most'],
  rows: servedNames.map((name) => {
    const { on, action, audited, bodyMax } = describeOperation(name);
    const body = bodyMax === undefined ? '' : `${bodyMax / 1024} KiB`;
    return [code(name), code(on), code(action), audited ? 'yes' : 'no', body];
  }),
};

const adminPage: Page = {
  title: 'The operator API',
  source: 'src/protocol/admin',
  intro: [
    'JSON, for operators, below `/admin/v1`; signed as every request is. [openapi.json](openapi.json) describes the same for programs, and',
    '`sluice admin` has a command for each operation. A `?` marks what may be absent. Every error is',
    '`{ code, message, request_id, details }`; `details.field` names the wrong field or parameter.',
  ].join('\n'),
  columns: ['operation', 'request', 'audited as', 'meaning'],
  rows: adminOperationNames.map((name) => {
    const { method, path, audited, doc } = describeAdminOperation(name);
    return [code(name), code(`${method} ${path}`), audited ? code(`admin:${name}`) : '', doc];
  }),
  rest: adminSections(),
};

const errorsPage: Page = {
  title: 'Errors',
  source: 'src/protocol/errors.ts',
  intro: 'What a client can be refused with. The message may say more in place.',
  columns: ['code', 'status', 'Retry-After', 'message'],
  rows: Object.entries(errorCatalogue).map(([name, { status, retryAfter, message }]) => [
    code(name),
    String(status),
    retryAfter === undefined ? '' : `${retryAfter} s`,
    message,
  ]),
};

const recordsPage: Page = {
  title: 'Records',
  source: 'src/metadata/tables.ts',
  intro: [
    'The metadata tables. Rows are read and committed one partition at a time and lie there in sort order (a leading',
    '`-` sorts descending). A `conditional` table takes only writes that state what they expect, a `plain` one only',
    'writes that are safe to repeat, a `counter` one only additions. A row may be without a column whose type ends with `?`.',
  ].join('\n'),
  columns: ['table', 'kind', 'partition', 'sort', 'spread by', 'columns'],
  rows: Object.values(tables).map((declared: AnyTable) => [
    code(declared.name),
    declared.kind,
    declared.partition.map(code).join(', '),
    declared.sort.map(code).join(', '),
    declared.spreadBy === undefined ? '' : code(String(declared.spreadBy)),
    Object.entries(declared.columns)
      .map(([name, { type, isOptional }]) => `${code(name)} ${type}${isOptional ? '?' : ''}`)
      .join(', '),
  ]),
};

const metricsPage: Page = {
  title: 'Metrics',
  source: 'src/metrics/metrics.ts',
  intro: [
    'What `/metrics` shows, in the Prometheus exposition format.',
    'Every process of a node answers for all of them: values are added up unless the table says otherwise. With',
    '`Accept: application/openmetrics-text` the reply is in the OpenMetrics format, with exemplars. Dashboards and alerts made of these',
    'metrics are in `deploy/observability`.',
  ].join('\n'),
  columns: ['metric', 'type', 'labels', 'across processes', 'meaning', 'when it moves'],
  rows: Object.entries<MetricRow>(metricTable).map(([name, row]) => [
    code(name),
    row.kind,
    row.labels.map(code).join(', '),
    row.across ?? 'sum',
    row.doc,
    row.act,
  ]),
};

const rowOf = (name: string) => {
  const known = operationNames.find((each) => each === name);
  return known === undefined ? undefined : describeOperation(known);
};

/** What an operation of the public API does here; a tidy test wants every one of them decided. */
function publicRow(name: string): readonly string[] {
  const here = sameRequest[name] ?? name;
  const row = rowOf(here);
  if (name in withoutRow) return [code(name), 'out of scope', withoutRow[name] ?? ''];
  const why = row?.leftOut;
  if (why !== undefined) return [code(name), 'out of scope', `501 \`NotImplemented\`: ${why}`];
  if (row === undefined) return [code(name), 'not built yet', '501 `NotImplemented`'];
  const note = notes[here] ?? '';
  return [
    code(name),
    note === '' ? 'works' : 'works, but',
    here === name ? note : `the request of ${code(here)}`,
  ];
}

const publicApiPage: Page = {
  title: 'The public S3 API',
  source: 'docs/public-api.ts',
  intro: 'Every operation of the public API and what it does here.',
  columns: ['operation', 'state', 'how'],
  rows: publicOperations.map(publicRow),
};

const pages: Readonly<Record<string, Page>> = {
  settings: settingsPage,
  options: optionsPage,
  operations: operationsPage,
  admin: adminPage,
  errors: errorsPage,
  records: recordsPage,
  metrics: metricsPage,
  'public-api': publicApiPage,
};

function render({ title, source, intro, columns, rows, rest }: Page): string {
  const note = `<!-- Generated from ${source} by \`npm run docs\`; edit that file instead. -->`;
  return `${note}\n# ${title}\n\n${intro}\n\n${table(columns, rows)}\n${rest === undefined ? '' : `\n${rest}`}`;
}

const directory = new URL('reference/', import.meta.url);
const root = new URL('../', import.meta.url).pathname;
const isCheck = process.argv.includes('--check');
const stale: string[] = [];
await mkdir(directory, { recursive: true });
const files = [
  ...Object.entries(pages).map(([name, page]) => [`${name}.md`, render(page)] as const),
  ['places.md', placesPage()] as const,
  ['openapi.json', `${JSON.stringify(adminOpenApi(), undefined, 2)}\n`] as const,
  ['../../src/setting-options.ts', optionsModule] as const,
];
for (const [name, text] of files) {
  const file = new URL(name, directory);
  if ((await readFile(file, 'utf8').catch(() => '')) === text) continue;
  stale.push(file.pathname.slice(root.length));
  if (!isCheck) await writeFile(file, text);
}
if (isCheck && stale.length > 0) {
  process.stderr.write(`stale, run npm run docs: ${stale.join(', ')}\n`);
  process.exitCode = 1;
}
