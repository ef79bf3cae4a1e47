/**
 * `sluice admin iam export` and `iam import`: accounts as a file of JSON lines. The first line says what the file is; each further one is a
 * record of an account; the last one says that the file is whole. Secrets are only in the file where they were asked for: sealed under a
 * passphrase, or in a file of mode 0600.
 */
import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type FileHandle, open, readFile, rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type AdminClient, AdminRefused, openAdminClient } from '../../admin-client.ts';
import { plural } from '../../base/text/plural.ts';
import { printable } from '../../base/text/printable.ts';
import { transferredMax } from '../../protocol/admin/iam-transfer.ts';
import type { AdminBody, AdminReply } from '../../protocol/admin/operations.ts';
import type { Plain } from '../../protocol/formats/json.ts';
import { UsageFault } from './commands.ts';
import { findProfile } from './profiles.ts';

type IamRecord = Plain<AdminReply<'ExportIam'>>['rows'][number];
type Imported = Plain<AdminReply<'ImportIam'>>['rows'][number];
type Key = NonNullable<IamRecord['keys']>[number] & { readonly sealedSecret?: string };

interface Header {
  readonly format: 'sluice-iam';
  readonly version: 1;
  /** Of scrypt, where secrets are sealed. */
  readonly sealing?: { readonly salt: string; readonly cost: number };
}
interface Line {
  readonly account: string;
  readonly record: Omit<IamRecord, 'keys'> & { readonly keys?: readonly Key[] };
}

/** The last line of a file: a file without it was cut short. */
interface End {
  readonly end: true;
  /** How many lines of records are before it. */
  readonly records: number;
  /** Accounts that the export could not read. */
  readonly leftOut?: readonly string[];
}

export const transferUsage = [
  'sluice admin iam export --to FILE [--account ID] [--secrets [--passphrase-file FILE]]',
  'sluice admin iam import --from FILE [--account ID] [--passphrase-file FILE] [--dry-run] [--overwrite] [--json]',
] as const;

const where = { profile: { type: 'string' }, endpoint: { type: 'string' } } as const;
const exportOptions = {
  ...where,
  to: { type: 'string' },
  account: { type: 'string' },
  secrets: { type: 'boolean', default: false },
  'passphrase-file': { type: 'string' },
} as const;
const importOptions = {
  ...where,
  from: { type: 'string' },
  account: { type: 'string' },
  'passphrase-file': { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  overwrite: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

export const isTransfer = ([noun, verb]: readonly string[]): boolean =>
  noun === 'iam' && (verb === 'export' || verb === 'import');

/** @throws UsageFault for an option that the command does not have */
export function assertTransferOptions([, verb, ...rest]: readonly string[]): void {
  parse(rest, verb === 'export' ? exportOptions : importOptions);
}

/** @returns whether all went well: an import without conflicts, an export of all accounts @throws UsageFault, AdminRefused */
export async function runTransfer([, verb, ...rest]: readonly string[]): Promise<boolean> {
  return verb === 'export' ? runExport(rest) : runImport(rest);
}

function parse<const T extends NonNullable<Parameters<typeof parseArgs>[0]>['options']>(
  args: readonly string[],
  options: T,
) {
  try {
    return parseArgs({ args: [...args], options, strict: true }).values;
  } catch (cause) {
    throw new UsageFault((cause as Error).message);
  }
}

function openClient({ profile, endpoint }: { profile?: string; endpoint?: string }): AdminClient {
  const common = {
    ...(profile === undefined ? {} : { '--profile': profile }),
    ...(endpoint === undefined ? {} : { '--endpoint': endpoint }),
  };
  return openAdminClient(findProfile(common, process.env));
}

function readPassphrase(file: string): string {
  try {
    const text = readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '');
    if (text.length >= 8) return text;
  } catch (cause) {
    throw new UsageFault(`--passphrase-file: ${(cause as Error).message}`);
  }
  throw new UsageFault(`--passphrase-file: ${file} has no passphrase of 8 characters or more`);
}

const scryptCost = 2 ** 15;
const nonceBytes = 12;
const tagBytes = 16;

const deriveKey = (passphrase: string, salt: Buffer, cost: number): Buffer =>
  scryptSync(passphrase, salt, 32, { N: cost, r: 8, p: 1, maxmem: 256 * cost * 8 });

/** The access key is authenticated too, so that a secret belongs to no other key. */
function sealSecret(key: Buffer, { accessKey, secretKey }: { accessKey: string; secretKey: string }): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(accessKey));
  const sealed = Buffer.concat([cipher.update(secretKey, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64');
}

/** @throws UsageFault for another passphrase, or a changed file */
function openSecret(
  key: Buffer,
  { accessKey, sealed, at }: { accessKey: string; sealed: string; at: string },
): string {
  const bytes = Buffer.from(sealed, 'base64');
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))
      .setAAD(Buffer.from(accessKey))
      .setAuthTag(bytes.subarray(-tagBytes));
    const opened = decipher.update(bytes.subarray(nonceBytes, -tagBytes));
    return Buffer.concat([opened, decipher.final()]).toString('utf8');
  } catch {
    throw new UsageFault(
      `${at}: the passphrase does not open the secret of ${accessKey}, or the file was changed`,
    );
  }
}

async function runExport(args: readonly string[]): Promise<boolean> {
  const input = parse(args, exportOptions);
  if (input.to === undefined) throw new UsageFault('--to is missing');
  const passphraseFile = input['passphrase-file'];
  if (passphraseFile !== undefined && !input.secrets)
    throw new UsageFault('--passphrase-file is for --secrets');
  const passphrase = passphraseFile === undefined ? undefined : readPassphrase(passphraseFile);
  const salt = randomBytes(16);
  const key = passphrase === undefined ? undefined : deriveKey(passphrase, salt, scryptCost);
  const client = openClient(input);
  const header: Header = {
    format: 'sluice-iam',
    version: 1,
    ...(key === undefined ? {} : { sealing: { salt: salt.toString('base64'), cost: scryptCost } }),
  };
  // A file that exists is kept, and with it its mode.
  const file = await open(input.to, 'wx', 0o600).catch((cause: Error) => {
    throw new UsageFault(`--to: ${cause.message}`);
  });
  try {
    await file.write(`${JSON.stringify(header)}\n`);
    const end = await exportAccounts(client, {
      account: input.account,
      file,
      key,
      hasSecrets: input.secrets,
    });
    await file.write(`${JSON.stringify(end)}\n`);
    await file.sync();
    process.stdout.write(`${plural(end.records, 'record is', 'records are')} in ${printable(input.to)}\n`);
    return end.leftOut === undefined;
  } catch (cause) {
    // So that the command can be run again: it writes new files only.
    await rm(input.to, { force: true });
    throw cause;
  } finally {
    await file.close();
  }
}

/** An account that cannot be read is left out, with a line on standard error, unless it is the only one. */
async function exportAccounts(
  client: AdminClient,
  { account: only, file, ...asked }: Omit<ExportAsked, 'account'> & { readonly account: string | undefined },
): Promise<End> {
  let records = 0;
  const leftOut: string[] = [];
  let refusal: AdminRefused | undefined;
  for await (const account of only === undefined ? listAccounts(client) : [only]) {
    try {
      const lines = await exportAccount(client, { account, ...asked });
      for (const line of lines) await file.write(`${JSON.stringify(line)}\n`);
      records += lines.length;
    } catch (cause) {
      if (!(cause instanceof AdminRefused) || only !== undefined) throw cause;
      refusal = cause;
      leftOut.push(account);
      reportProblem(`the account ${account} is left out: ${cause.message}`);
    }
  }
  if (only === undefined)
    for (const account of await findFormerAccounts(client)) {
      leftOut.push(account);
      reportProblem(
        `the account ${account} is left out: it owns buckets, and neither the settings nor an operator has made it an account: run sluice admin accounts create --account ${account} --adopt first`,
      );
    }
  // Not one account can be read, so this is no fault of an account.
  if (records === 0 && refusal !== undefined) throw refusal;
  return { end: true, records, ...(leftOut.length === 0 ? {} : { leftOut }) };
}

const reportProblem = (text: string): void => void process.stderr.write(`sluice: ${printable(text)}\n`);

async function* listAccounts(client: AdminClient): AsyncGenerator<string> {
  let after: string | undefined;
  do {
    const { json } = await client.call('ListAccounts', { query: { after } });
    for (const { account } of json.rows) yield account;
    after = json.next;
  } while (after !== undefined);
}

/** Owners of buckets that are no accounts any more, because their keys left the settings. */
async function findFormerAccounts(client: AdminClient): Promise<readonly string[]> {
  const owners = new Set<string>();
  let after: string | undefined;
  try {
    do {
      const { json } = await client.call('ListBuckets', { query: { after, limit: 1_000 } });
      for (const { owner } of json.rows) owners.add(owner);
      after = json.next;
    } while (after !== undefined);
  } catch (cause) {
    if (!(cause instanceof AdminRefused)) throw cause;
    reportProblem(`former accounts that own buckets are not looked for: ${cause.message}`);
    return [];
  }
  // Read after the buckets: an account may have been made since the export began.
  for await (const account of listAccounts(client)) owners.delete(account);
  return [...owners];
}

interface ExportAsked {
  readonly account: string;
  readonly file: FileHandle;
  readonly key: Buffer | undefined;
  readonly hasSecrets: boolean;
}

/** All lines of an account, so that one that breaks off writes none. */
async function exportAccount(
  client: AdminClient,
  { account, key, hasSecrets }: Omit<ExportAsked, 'file'>,
): Promise<readonly Line[]> {
  let after: string | undefined;
  const lines: Line[] = [];
  do {
    const { json } = await client.call('ExportIam', { path: { account }, query: { after } });
    const secrets = hasSecrets ? await readSecrets(client, account, json.rows) : new Map<string, string>();
    for (const { keys, ...record } of json.rows)
      lines.push({ account, record: { ...record, ...keysWith(keys, { secrets, key }) } });
    after = json.next;
  } while (after !== undefined);
  return lines;
}

async function readSecrets(client: AdminClient, account: string, records: readonly IamRecord[]) {
  const accessKeys = records.flatMap(({ keys = [] }) => keys.map(({ accessKey }) => accessKey));
  if (accessKeys.length === 0) return new Map<string, string>();
  const { json } = await client.call('ExportIamSecrets', { path: { account }, body: { accessKeys } });
  return new Map(json.rows.map(({ accessKey, secretKey }) => [accessKey, secretKey]));
}

function keysWith(
  keys: IamRecord['keys'],
  { secrets, key }: { readonly secrets: ReadonlyMap<string, string>; readonly key: Buffer | undefined },
): { readonly keys?: readonly Key[] } {
  if (keys === undefined) return {};
  return {
    keys: keys.map((each) => {
      const secretKey = secrets.get(each.accessKey);
      if (secretKey === undefined) return each;
      return key === undefined
        ? { ...each, secretKey }
        : { ...each, sealedSecret: sealSecret(key, { accessKey: each.accessKey, secretKey }) };
    }),
  };
}

async function runImport(args: readonly string[]): Promise<boolean> {
  const input = parse(args, importOptions);
  if (input.from === undefined) throw new UsageFault('--from is missing');
  const client = openClient(input);
  const text = await readFile(input.from, 'utf8').catch((cause: Error) => {
    throw new UsageFault(`--from: ${cause.message}`);
  });
  const totals = new Map<string, number>();
  const passphrase = input['passphrase-file'];
  const mode = { dryRun: input['dry-run'], overwrite: input.overwrite };
  // All lines are read before the first request, so that a file that was cut short changes nothing.
  const lines = readLines(text, { file: input.from, passphrase });
  for (const { account, records } of groupByAccount(lines)) {
    if (input.account !== undefined && input.account !== account) continue;
    const body = { records, ...mode } as unknown as Plain<AdminBody<'ImportIam'>>;
    const { json } = await client.call('ImportIam', { path: { account }, body });
    for (const row of json.rows) {
      totals.set(row.outcome, (totals.get(row.outcome) ?? 0) + 1);
      if (input.json) process.stdout.write(`${JSON.stringify({ account, ...row })}\n`);
      else if (row.outcome !== 'unchanged') process.stdout.write(formatRow(account, row));
    }
  }
  const conflicts = totals.get('conflict') ?? 0;
  const of = (outcome: Imported['outcome']): string => `${totals.get(outcome) ?? 0} ${outcome}`;
  process.stderr.write(
    `${mode.dryRun ? 'would be: ' : ''}${of('created')}, ${of('changed')}, ${of('unchanged')}, ${conflicts} in conflict\n`,
  );
  return conflicts === 0;
}

function formatRow(account: string, { kind, name, outcome, changes, notes }: Imported): string {
  const what = kind === 'account' ? account : `${account} ${kind}/${name}`;
  const fields = changes.length === 0 ? '' : ` (${changes.join(', ')})`;
  return `${printable(`${outcome.padEnd(9)} ${what}${fields}${notes.map((note) => `  ${note}`).join('')}`)}\n`;
}

/** Each line of the file between the first and the last, with the secrets opened. @throws UsageFault naming the line */
function readLines(
  text: string,
  { file, passphrase }: { readonly file: string; readonly passphrase: string | undefined },
): readonly Line[] {
  const [first, ...rest] = text
    .split(/\r?\n/)
    .map((line, index) => ({ line, at: `${file}: line ${index + 1}` }))
    .filter(({ line }) => line !== '')
    .map(({ line, at }) => ({ parsed: parseLine(line, at), at }));
  if (first === undefined) throw new UsageFault(`${file} is empty`);
  const key = deriveFileKey(first.parsed, { file, passphrase });
  const records = rest.slice(0, -1);
  const end: Partial<End> = rest.at(-1)?.parsed ?? {};
  if (end.end !== true)
    throw new UsageFault(
      `${file} has no end line: it was cut short, or an earlier version wrote it; run sluice admin iam export again`,
    );
  if (end.records !== records.length)
    throw new UsageFault(`${file} has ${records.length} records, and its end line names ${end.records}`);
  for (const account of Array.isArray(end.leftOut) ? end.leftOut : [])
    reportProblem(`${file} has no records of the account ${account}, which the export could not read`);
  return records.map(({ parsed, at }) => withOpened(asLine(parsed, at), { key, at }));
}

/** @throws UsageFault; the gateway checks the fields of the record */
function asLine(parsed: Readonly<Record<string, unknown>>, at: string): Line {
  const { account, record } = parsed;
  if (typeof account !== 'string') throw new UsageFault(`${at} has no account`);
  if (!isObject(record)) throw new UsageFault(`${at} has no record`);
  const { keys } = record;
  const isKeys = keys === undefined || (Array.isArray(keys) && keys.every(isKey));
  if (!isKeys) throw new UsageFault(`${at} has keys that are not a list of access keys`);
  // The cast: what this command reads of a record is checked above.
  return { account, record: record as unknown as Line['record'] };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isKey = (value: unknown): boolean =>
  isObject(value) &&
  typeof value['accessKey'] === 'string' &&
  (value['sealedSecret'] === undefined || typeof value['sealedSecret'] === 'string');

/** The parser's own message would quote the line, which may have secrets. */
function parseLine(text: string, at: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text);
    if (isObject(parsed)) return parsed;
  } catch {
    // Answered below.
  }
  throw new UsageFault(`${at} is not a JSON object`);
}

function deriveFileKey(
  { format, version, sealing }: Readonly<Record<string, unknown>>,
  { file, passphrase }: { readonly file: string; readonly passphrase: string | undefined },
): Buffer | undefined {
  if (format !== 'sluice-iam' || version !== 1)
    throw new UsageFault(`${file} is not an export of this command of a version that this sluice reads`);
  if (sealing === undefined) return undefined;
  if (!isObject(sealing) || typeof sealing['salt'] !== 'string')
    throw new UsageFault(`${file}: line 1 has no salt of its sealing`);
  if (passphrase === undefined)
    throw new UsageFault(`the secrets in ${file} are sealed: --passphrase-file is missing`);
  const { salt, cost } = sealing as unknown as NonNullable<Header['sealing']>;
  if (cost !== scryptCost) throw new UsageFault(`${file} was sealed with other parameters of scrypt`);
  return deriveKey(readPassphrase(passphrase), Buffer.from(salt, 'base64'), cost);
}

function withOpened(
  { account, record }: Line,
  { key, at }: { readonly key: Buffer | undefined; readonly at: string },
): Line {
  if (record.keys === undefined || key === undefined) return { account, record };
  const keys = record.keys.map(({ sealedSecret: sealed, ...each }) =>
    sealed === undefined
      ? each
      : { ...each, secretKey: openSecret(key, { accessKey: each.accessKey, sealed, at }) },
  );
  return { account, record: { ...record, keys } };
}

/** Bodies of requests have a largest size. */
const batchBytesMax = 48 * 1024;

/** Records of one account, as many as one request takes. */
function* groupByAccount(
  lines: readonly Line[],
): Generator<{ readonly account: string; readonly records: readonly Line['record'][] }> {
  let account = '';
  let records: Line['record'][] = [];
  let bytes = 0;
  for (const line of lines) {
    const size = Buffer.byteLength(JSON.stringify(line.record));
    const isFull = records.length === transferredMax || bytes + size > batchBytesMax;
    if (records.length > 0 && (line.account !== account || isFull)) {
      yield { account, records };
      records = [];
      bytes = 0;
    }
    ({ account } = line);
    records.push(line.record);
    bytes += size;
  }
  if (records.length > 0) yield { account, records };
}
