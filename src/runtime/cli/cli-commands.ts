/** The `sluice` command: a table of commands, whose flags are the settings. */
import { nearest } from '../../config/nearest.ts';
import { type Found, type ParsedFlags, parseFlags, showSetting, toFlag } from '../../config/read-config.ts';
import type { Setting } from '../../config/setting.ts';
import { type SettingName, settingNames, settings } from '../../config.ts';
import { type Configuration, loadConfiguration } from '../compose/configuration.ts';
import { expectedInstallation } from '../expected-installation.ts';
import { asRefusal, StartRefusal } from '../start-refusal.ts';
import { packageVersion } from './version.ts';

/** The exit code for an invalid command line or configuration; a failure while running is 1. */
const faultCode = 2;

interface Command {
  readonly doc: string;
  /** The command's own flags, in addition to the settings. */
  readonly own?: readonly string[];
  /** Resolves with the exit code. */
  readonly run: (flags: ParsedFlags) => Promise<number>;
}

async function runServe({ input: supplied, own }: ParsedFlags): Promise<number> {
  const { configuration, faults, warnings } = await loadConfiguration({
    env: process.env,
    flags: supplied,
    // A process of several that is started again must not make the directory that its node has lost.
    prepares: expectedInstallation() === undefined,
  });
  if (configuration === undefined) return refuse(faults);
  // Loaded late: `--help` and a faulty configuration answer without the whole gateway.
  const { serveUntilStopped } = await import('./cli-serve.ts');
  const code = await serveUntilStopped(configuration, { warnings, isInit: own.includes('--init') }).catch(
    (error: unknown) => {
      if (!(error instanceof StartRefusal)) throw error;
      refuse([error.message]);
      return error.exitCode;
    },
  );
  // The channel to the primary, or a connection that was cut, would keep the process alive.
  process.exit(code);
}

async function runConfig({ input: supplied, own }: ParsedFlags): Promise<number> {
  const { faults, warnings, found } = await loadConfiguration({
    env: process.env,
    flags: supplied,
    prepares: false,
  });
  process.stdout.write(showConfig(found, own.includes('--json')));
  for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
  return faults.length > 0 ? refuse(faults) : 0;
}

/** A command that needs a valid configuration, and has further rules for its flags. */
interface Work {
  readonly faults: (configuration: Configuration, own: readonly string[]) => readonly string[];
  readonly run: (configuration: Configuration, own: readonly string[]) => Promise<number>;
}

/** @param load loads the code of the command, which a faulty command line does not need */
const configured =
  (load: () => Promise<Work>): Command['run'] =>
  async ({ input: supplied, own }) => {
    const { configuration, faults } = await loadConfiguration({
      env: process.env,
      flags: supplied,
      prepares: false,
    });
    if (configuration === undefined) return refuse(faults);
    const work = await load();
    const wrong = work.faults(configuration, own);
    if (wrong.length > 0) return refuse(wrong);
    return work.run(configuration, own).catch((error: unknown) => {
      const refusal = asRefusal(error, configuration.config);
      if (!(refusal instanceof StartRefusal)) throw error;
      refuse([refusal.message]);
      return refusal.exitCode;
    });
  };

const commands: Readonly<Record<string, Command>> = {
  serve: {
    doc: 'Runs the gateway. --init begins a new installation where there are chunks of one whose metadata is lost.',
    own: ['--init'],
    run: runServe,
  },
  config: {
    doc: 'Shows every setting with its value, source and default; --json for programs.',
    own: ['--json'],
    run: runConfig,
  },
  health: {
    doc: 'Exits with 0 where the gateway of the same settings answers on this machine, otherwise with 1; --ready asks its backends too, --wait=DURATION tries until then.',
    own: ['--ready', '--wait='],
    run: configured(async () => {
      const { healthFaults, health } = await import('./cli-health.ts');
      return { faults: healthFaults, run: health };
    }),
  },
  fsck: {
    doc: 'Compares metadata and data. --deep reads every byte, --fix repairs, --drop-missing removes versions whose bytes are missing, --rebuild makes the rows of a lost index from the stored bytes; --json, --resume; --watch shows the progress.',
    own: ['--json', '--watch', '--deep', '--fix', '--drop-missing', '--resume', '--rebuild', '--bucket='],
    run: configured(async () => {
      const { fsckFaults, fsck } = await import('./cli-fsck.ts');
      return { faults: fsckFaults, run: fsck };
    }),
  },
  compact: {
    doc: 'Makes the file of embedded metadata smaller while no gateway runs. --drop-damaged leaves out rows that do not verify, --discard-old removes the former file immediately; --json.',
    own: ['--json', '--drop-damaged', '--discard-old'],
    run: configured(async () => {
      const { compactFaults, compact } = await import('./cli-compact.ts');
      return { faults: compactFaults, run: compact };
    }),
  },
  backup: {
    doc: 'Copies the data directory to --to=DIRECTORY while gateways use it; a later backup to the same directory copies what is new. It then verifies that nothing is missing, unless --no-verify; --json; --watch shows the progress.',
    own: ['--to=', '--json', '--no-verify', '--watch'],
    run: configured(async () => {
      const { backupFaults, runBackup } = await import('../backup/cli-backup.ts');
      return { faults: backupFaults, run: runBackup };
    }),
  },
  restore: {
    doc: 'Copies the backup of --from=DIRECTORY to an empty data directory and compares metadata and data; --as-new-site gives the copy an id of its own, so that it and its origin can replicate to each other; --json; --watch shows the progress.',
    own: ['--from=', '--as-new-site', '--json', '--watch'],
    run: configured(async () => {
      const { restoreFaults, runRestore } = await import('../backup/cli-backup.ts');
      return { faults: restoreFaults, run: runRestore };
    }),
  },
  'meta export': {
    doc: 'Writes all metadata to --to=DIRECTORY while no gateway runs, for another metadata backend; continues where it was stopped; --json; --watch shows the progress.',
    own: ['--to=', '--json', '--watch'],
    run: configured(async () => {
      const { exportFaults, runExport } = await import('../backup/cli-meta.ts');
      return { faults: exportFaults, run: runExport };
    }),
  },
  'meta import': {
    doc: 'Puts the export of --from=DIRECTORY into the metadata backend of the settings, which must be empty, and compares all rows; continues where it was stopped; --json; --watch shows the progress.',
    own: ['--from=', '--json', '--watch'],
    run: configured(async () => {
      const { importFaults, runImport } = await import('../backup/cli-meta.ts');
      return { faults: importFaults, run: runImport };
    }),
  },
  import: {
    doc: 'Indexes the objects that an upstream bucket already has, into --bucket=; continues where it was stopped. --again imports objects that have changed there since, --released lists those that no version names any more; --cluster=, --rate=, --without-headers, --json.',
    own: ['--json', '--bucket=', '--cluster=', '--rate=', '--without-headers', '--again', '--released'],
    run: configured(async () => {
      const { importFaults, runImport } = await import('./cli-import.ts');
      return { faults: importFaults, run: runImport };
    }),
  },
};

function refuse(faults: readonly string[]): number {
  process.stderr.write(`${faults.map((fault) => `sluice: ${fault}`).join('\n')}\n`);
  return faultCode;
}

/** All faults at once: unknown flags, and invalid values of known ones. */
async function everyFault({ input: supplied, faults }: ParsedFlags): Promise<readonly string[]> {
  const loaded = await loadConfiguration({ env: process.env, flags: supplied, prepares: false });
  return [...faults, ...loaded.faults];
}

/** Commands whose arguments are not settings. */
const others: Readonly<
  Record<string, { readonly doc: string; run(args: readonly string[]): Promise<number> }>
> = {
  admin: {
    doc: 'Every operation of the operator API as a command, on a running gateway; see sluice admin --help.',
    run: async (args) => (await import('./cli-admin.ts')).runAdmin(args),
  },
  dev: {
    doc: 'Runs an S3 server for development: in memory, with a fixed key, and a line for each request. --port=9000, --host=127.0.0.1, --bucket=NAME makes a bucket, --seed=DIRECTORY makes one of each folder in it.',
    run: async (args) => (await import('./cli-dev.ts')).runDev(args),
  },
  keygen: {
    doc: 'Prints a new key, which is stored nowhere: access-key (default), master-key or hsm-key.',
    run: async (args) => (await import('./cli-keygen.ts')).runKeygen(args),
  },
  'bucket-secret': {
    doc: 'Derives from standard input the shared secret of a bucket with a signing key (shared), or the secret with which a caller signs there (combined).',
    run: async (args) => (await import('./cli-keygen.ts')).runBucketSecret(args),
  },
  completion: {
    doc: 'Prints the script by which bash, zsh or fish complete these commands.',
    run: async (args) =>
      (await import('./completion.ts')).runCompletion(args, [
        ...Object.keys(commands),
        ...Object.keys(others),
      ]),
  },
};

/** A test asks for each in the documentation. */
export const commandNames = Object.keys({ ...commands, ...others });

/** A name may have two words, such as `meta export`. */
const joinName = ([first, second, ...rest]: readonly string[]): readonly string[] => {
  const both = `${first} ${second}`;
  if (Object.hasOwn(commands, both)) return [both, ...rest];
  return [first, second, ...rest].filter((each) => each !== undefined);
};

/** @returns the exit code */
export async function runCommand(args: readonly string[]): Promise<number> {
  const [name, ...rest] = joinName(args);
  const other = name !== undefined && Object.hasOwn(others, name) ? others[name] : undefined;
  if (other !== undefined) return other.run(rest);
  const asked = name === undefined ? [] : [name, ...rest];
  if (asked.includes('--help') || asked.includes('-h') || name === 'help') {
    process.stdout.write(help({ ...commands, ...others }));
    return 0;
  }
  if (name === '--version' || name === 'version') {
    process.stdout.write(`${packageVersion()}\n`);
    return 0;
  }
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    const close = nearest(name ?? '', [...Object.keys(commands), ...Object.keys(others)]);
    const hint =
      close === undefined
        ? `known are ${[...Object.keys(commands), ...Object.keys(others)].join(', ')}`
        : `${close} is`;
    return refuse([
      name === undefined ? 'a command is missing; see sluice --help' : `${name} is not a command; ${hint}`,
    ]);
  }
  const flags = parseFlags(rest, command.own);
  return flags.faults.length > 0 ? refuse(await everyFault(flags)) : command.run(flags);
}

// `sluice --help`: the commands, and the flags as the settings table has them.

const optionWidth = 24;

function help(commands: Readonly<Record<string, { readonly doc: string }>>): string {
  const commandRows = Object.entries(commands).map(
    ([name, { doc }]) => `  ${name.padEnd(optionWidth)} ${doc}`,
  );
  const flagRows = settingNames.map((name) => {
    const setting: Setting<unknown> = settings[name];
    const from = setting.fallbackFrom === undefined ? '' : `; ${setting.fallbackFrom.doc}`;
    const fallback = setting.fallback ? ` (${setting.fallback}${from})` : '';
    return `  ${toFlag(name).padEnd(optionWidth)} ${setting.doc}${fallback}`;
  });
  return [
    'usage: sluice <command> [--flag value …]',
    '',
    'commands:',
    ...commandRows,
    `  ${'--help, --version'.padEnd(optionWidth)} This text; the version.`,
    '',
    'flags (each is also a variable: --data-dir is SVC_DATA_DIR; flags win):',
    ...flagRows,
    '',
  ].join('\n');
}

// `sluice config`: every setting with its value, default and source, secrets masked.

const toRow = (found: Found) => {
  const { name, ...visible } = showSetting(found);
  return { name, flag: toFlag(name as SettingName), ...visible };
};

const formatValue = (text: string | null): string =>
  text === null ? '(unset)' : text === '' ? '(empty)' : text;

function showConfig(found: readonly Found[], asJson: boolean): string {
  const rows = found.map(toRow);
  if (asJson) return `${JSON.stringify(rows, undefined, 2)}\n`;
  const cells = [
    ['SETTING', 'VALUE', 'SOURCE', 'DEFAULT'],
    ...rows.map((row) => [row.name, formatValue(row.value), row.source, formatValue(row.default)]),
  ];
  const widths = [0, 1, 2].map((column) => Math.max(...cells.map((cell) => (cell[column] ?? '').length)));
  const lines = cells.map((cell) =>
    cell
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
