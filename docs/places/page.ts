/** The reference page that names the files in which each row of the tables is used. */
import { posix } from 'node:path';
import { conditionKeys, tagKeys } from '../../src/auth/policy/keys.ts';
import { errorCodes } from '../../src/base/errors.ts';
import { dataBackendNames } from '../../src/config/data.ts';
import { keyProviderNames } from '../../src/config/keys.ts';
import { metadataBackendNames } from '../../src/config/metadata.ts';
import { controlledWorkers } from '../../src/config/workers.ts';
import { settingNames } from '../../src/config.ts';
import { eventPatterns } from '../../src/domain/configurations/notification.ts';
import { tables } from '../../src/metadata/tables.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { sinkKinds } from '../../src/ports/event-sink.ts';
import type { AnyTable } from '../../src/ports/metadata-store.ts';
import { stages } from '../../src/ports/trace.ts';
import { adminOperationNames } from '../../src/protocol/admin/operations.ts';
import { describeOperation, operationNames } from '../../src/protocol/operations/operations.ts';
import { code, table } from '../markdown.ts';
import { findHandlers, type HandlerPlaces } from './handlers.ts';
import { headerPlaces } from './headers.ts';
import { recordPlaces } from './records.ts';
import {
  findCommands,
  findConditionKeys,
  findErrors,
  findEvents,
  findGiven,
  findMetrics,
  findOpened,
  findSettings,
  findTasks,
  findWorkers,
} from './uses.ts';

interface Section {
  readonly title: string;
  readonly intro: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** More places than this are counted by folder. */
const listedMax = 8;

const show = (path: string): string => path.replace(/^src\/(?=.)/, '');
const link = (path: string): string => `[${show(path)}](../../${path})`;

/** The places without the one that the introduction of the section names. */
const without = (places: Iterable<string> | undefined, left: string): readonly string[] =>
  [...(places ?? [])].filter((file) => file !== left);

function list(places: Iterable<string> | undefined): string {
  const files = [...new Set(places)].sort();
  if (files.length <= listedMax) return files.map(link).join(', ');
  const folders = Map.groupBy(files, (file) => posix.dirname(file));
  return [...folders]
    .map(([folder, inside]) =>
      inside.length === 1 ? link(inside[0] ?? '') : `${link(folder)} (${inside.length})`,
    )
    .join(', ');
}

const handlerRows = (handlers: ReadonlyMap<string, HandlerPlaces>): Section['rows'] =>
  [...handlers].map(([name, { file, domain }]) => [code(name), link(file), list(domain)]);

const operations = findHandlers('src/handlers/table.ts', operationNames);
const actionNames = new Set<string>(
  operationNames.filter((name) => /^(iam|sts):/.test(describeOperation(name).action)),
);
const split = (isAction: boolean) =>
  new Map([...operations].filter(([name]) => actionNames.has(name) === isAction));

const errors = findErrors(errorCodes);
const settings = findSettings(settingNames);
const metrics = findMetrics(Object.keys(metricTable));
const events = [...eventPatterns].flatMap((name) => (name.endsWith('*') ? [] : [name.slice('s3:'.length)]));
const eventPlaces = findEvents(events);
const conditions = findConditionKeys([...conditionKeys.keys()], tagKeys);
const spans = findGiven(stages, ['stage', 'enter']);

/** The operations whose rows say that they cause an event. */
const causes = (event: string): string =>
  operationNames
    .filter((name) =>
      (describeOperation(name).events ?? []).some((each) => event === each || event.startsWith(`${each}:`)),
    )
    .map(code)
    .join(', ');

const everyTable = 'src/runtime/backup/cli-meta.ts';

const recordRow = ({ name }: AnyTable): readonly string[] => {
  const found = recordPlaces.get(name);
  return [
    code(name),
    list(without(found?.reads.direct, everyTable)),
    list(without(found?.reads.callers, everyTable)),
    list(without(found?.writes.direct, everyTable)),
    list(without(found?.writes.callers, everyTable)),
  ];
};

const headerRows = (isOfProtocol: boolean): Section['rows'] =>
  [...headerPlaces].flatMap(([name, { read, set }]) =>
    name.startsWith('x-amz-') === isOfProtocol ? [[code(name), list(read), list(set)]] : [],
  );

/** Of each backend, by the setting that chooses it. */
const opened = (names: readonly string[], kind: string, folder: string): Section['rows'] =>
  [...findOpened(names, folder)].map(([name, files]) => [code(name), kind, list(files)]);

const sections: readonly Section[] = [
  {
    title: 'Operations of the S3 protocol',
    intro:
      'The file that answers, and the files of the domain that it calls, itself or through other files of `src/handlers`.',
    columns: ['operation', 'handler', 'domain'],
    rows: handlerRows(split(false)),
  },
  {
    title: 'Actions of IAM and STS',
    intro: 'As above.',
    columns: ['action', 'handler', 'domain'],
    rows: handlerRows(split(true)),
  },
  {
    title: 'Operations of the operator API',
    intro: 'As above.',
    columns: ['operation', 'handler', 'domain'],
    rows: handlerRows(findHandlers('src/handlers/admin/table.ts', adminOperationNames)),
  },
  {
    title: 'Error codes',
    intro:
      'Some files look at the code of a refusal, of this service or another one: they compare it, or have a table by code.',
    columns: ['code', 'refused by', 'looked at by'],
    rows: errorCodes.map((name) => [
      code(name),
      list(errors.refuse.get(name)),
      list(errors.compare.get(name)),
    ]),
  },
  {
    title: 'Settings',
    intro: 'Without `sluice config` and the support bundle, which show all of them.',
    columns: ['setting', 'read by'],
    rows: settingNames.map((name) => [code(name), list(settings.get(name))]),
  },
  {
    title: 'Metrics',
    intro: '',
    columns: ['metric', 'counted by', 'read by'],
    rows: Object.keys(metricTable).map((name) => [
      code(name),
      list(metrics.count.get(name)),
      list(metrics.read.get(name)),
    ]),
  },
  {
    title: 'Tables of records',
    intro:
      'The files that call the store, and those outside of `src/metadata` that call their functions. Left out is `src/runtime/backup/cli-meta.ts`, which exports and imports every table.',
    columns: ['table', 'read by', '… for', 'written by', '… for'],
    rows: Object.values(tables).map(recordRow),
  },
  {
    title: 'Headers of the protocol',
    intro:
      'In requests and replies of this service, and in its requests to others. The twins that begin with `x-store-` are the same headers. `src/protocol/operations/operations.ts` names those that select an operation or need a further action. `*` stands for what is known at run time only.',
    columns: ['header', 'read by', 'set by'],
    rows: headerRows(true),
  },
  {
    title: 'Other headers',
    intro:
      'As above. Left out are those that Node sets itself, and those that are passed on whatever their name is, such as the headers that a signature covers.',
    columns: ['header', 'read by', 'set by'],
    rows: headerRows(false),
  },
  {
    title: 'Events',
    intro:
      'The operations whose rows name the event, and the files that make it. An event without either is accepted in configurations, and never sent.',
    columns: ['event', 'operations', 'files'],
    rows: events.map((name) => [
      code(`s3:${name}`),
      causes(name),
      list(without(eventPlaces.get(name), 'src/protocol/operations/operations.ts')),
    ]),
  },
  {
    title: 'Condition keys',
    intro:
      'The files that give the key a value, or have a rule about it. No request has a key without a file. A family of tags is listed by its name before the slash.',
    columns: ['key', 'files'],
    rows: [...conditions].map(([name, files]) => [code(name), list(files)]),
  },
  {
    title: 'Stages of a request in traces',
    intro: '',
    columns: ['stage', 'begun by'],
    rows: stages.map((name) => [code(name), list(spans.get(name))]),
  },
  {
    title: 'Workers',
    intro: '',
    columns: ['worker', 'file', 'domain'],
    rows: [...findWorkers(controlledWorkers)].map(([name, { file, domain }]) => [
      code(name),
      link(file),
      list(domain),
    ]),
  },
  {
    title: 'Long tasks',
    intro: '',
    columns: ['task', 'worker or command', 'declared by'],
    rows: findTasks().map(({ kind, by, file }) => [code(kind), code(by), link(file)]),
  },
  {
    title: 'Commands of `sluice`',
    intro: 'The files that `src/runtime/cli/cli-commands.ts` loads for them.',
    columns: ['command', 'files'],
    rows: [...findCommands()].map(([name, files]) => [code(name), list(files)]),
  },
  {
    title: 'Backends, key providers and targets of events',
    intro: 'The files that open what a setting names.',
    columns: ['name', 'kind', 'files'],
    rows: [
      ...opened(metadataBackendNames, 'metadata (`SVC_META_BACKEND`)', 'src/backends/metadata/'),
      ...opened(dataBackendNames, 'data (`SVC_DATA_BACKEND`)', 'src/backends/data/'),
      ...opened(keyProviderNames, 'key provider (`SVC_KEY_PROVIDER`)', 'src/backends/keys/'),
      ...opened(Object.keys(sinkKinds), 'target of events (`SVC_NOTIFY_TARGETS`)', 'src/backends/sinks/'),
    ],
  },
];

const anchor = (title: string): string =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9_\- ]/g, '')
    .replaceAll(' ', '-');

export function placesPage(): string {
  const contents = sections.map(({ title }) => `[${title}](#${anchor(title)})`).join(' · ');
  const parts = sections.map(
    ({ title, intro, columns, rows }) =>
      `## ${title}\n\n${intro === '' ? '' : `${intro}\n\n`}${table(columns, rows)}\n`,
  );
  return `<!-- Generated from src by \`npm run docs\`; edit the sources instead. -->
# Where things are used

The files of \`src\` that use what the tables declare, as the syntax trees of the sources show it: comments, types and texts of messages
do not count. More than ${listedMax} files are counted by folder. What the rows mean is on the other pages of this folder.

${contents}

${parts.join('\n')}`;
}
