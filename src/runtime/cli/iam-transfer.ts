/**
 * `sluice admin iam export` and `iam import`: accounts as a file of JSON lines. The first line says what the file is; each further one is a
 * record of an account. Secrets are only in the file where they were asked for: sealed under a passphrase, or in a file of mode 0600.
 */
import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type AdminClient, openAdminClient } from '../../admin-client.ts';
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

/** @returns whether all went well: an import without conflicts @throws UsageFault, AdminRefused */
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
function openSecret(key: Buffer, { accessKey, sealed }: { accessKey: string; sealed: string }): string {
  const bytes = Buffer.from(sealed, 'base64');
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))
      .setAAD(Buffer.from(accessKey))
      .setAuthTag(bytes.subarray(-tagBytes));
    const opened = decipher.update(bytes.subarray(nonceBytes, -tagBytes));
    return Buffer.concat([opened, decipher.final()]).toString('utf8');
  } catch {
    throw new UsageFault(`the passphrase does not open the secret of ${accessKey}, or the file was changed`);
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
  let records = 0;
  try {
    await file.write(`${JSON.stringify(header)}\n`);
    for await (const account of input.account === undefined ? listAccounts(client) : [input.account])
      records += await exportAccount(client, { account, file, key, hasSecrets: input.secrets });
    await file.sync();
  } finally {
    await file.close();
  }
  process.stdout.write(`${records} records are in ${printable(input.to)}\n`);
  return true;
}

async function* listAccounts(client: AdminClient): AsyncGenerator<string> {
  let after: string | undefined;
  do {
    const { json } = await client.call('ListAccounts', { query: { after } });
    for (const { account } of json.rows) yield account;
    after = json.next;
  } while (after !== undefined);
}

interface ExportAsked {
  readonly account: string;
  readonly file: FileHandle;
  readonly key: Buffer | undefined;
  readonly hasSecrets: boolean;
}

async function exportAccount(
  client: AdminClient,
  { account, file, key, hasSecrets }: ExportAsked,
): Promise<number> {
  let after: string | undefined;
  let count = 0;
  do {
    const { json } = await client.call('ExportIam', { path: { account }, query: { after } });
    const secrets = hasSecrets ? await readSecrets(client, account, json.rows) : new Map<string, string>();
    for (const record of json.rows) {
      const line = { account, record: { ...record, ...keysWith(record, { secrets, key }) } };
      await file.write(`${JSON.stringify(line)}\n`);
      count += 1;
    }
    after = json.next;
  } while (after !== undefined);
  return count;
}

async function readSecrets(client: AdminClient, account: string, records: readonly IamRecord[]) {
  const accessKeys = records.flatMap(({ keys = [] }) => keys.map(({ accessKey }) => accessKey));
  if (accessKeys.length === 0) return new Map<string, string>();
  const { json } = await client.call('ExportIamSecrets', { path: { account }, body: { accessKeys } });
  return new Map(json.rows.map(({ accessKey, secretKey }) => [accessKey, secretKey]));
}

function keysWith(
  { keys }: IamRecord,
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
  const file = await open(input.from).catch((cause: Error) => {
    throw new UsageFault(`--from: ${cause.message}`);
  });
  const totals = new Map<string, number>();
  const passphrase = input['passphrase-file'];
  const mode = { dryRun: input['dry-run'], overwrite: input.overwrite };
  for await (const { account, records } of groupByAccount(
    readLines(file, { file: input.from, passphrase }),
  )) {
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

/** Each line of the file after the first, with the secrets opened. @throws UsageFault naming the line */
async function* readLines(
  handle: FileHandle,
  { file, passphrase }: { readonly file: string; readonly passphrase: string | undefined },
): AsyncGenerator<Line> {
  let number = 0;
  let key: Buffer | undefined;
  for await (const text of handle.readLines()) {
    number += 1;
    if (text === '') continue;
    const parsed = parseLine(text, `${file}: line ${number}`);
    if (number === 1) key = deriveFileKey(parsed as Header, { file, passphrase });
    else yield withOpened(parsed as Line, key);
  }
  if (number === 0) throw new UsageFault(`${file} is empty`);
}

/** The parser's own message would quote the line, which may have secrets. */
function parseLine(text: string, at: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) return parsed;
  } catch {
    // Answered below.
  }
  throw new UsageFault(`${at} is not a JSON object`);
}

function deriveFileKey(
  { format, version, sealing }: Partial<Header>,
  { file, passphrase }: { readonly file: string; readonly passphrase: string | undefined },
): Buffer | undefined {
  if (format !== 'sluice-iam' || version !== 1)
    throw new UsageFault(`${file} is not an export of this command of a version that this sluice reads`);
  if (sealing === undefined) return undefined;
  if (passphrase === undefined)
    throw new UsageFault(`the secrets in ${file} are sealed: --passphrase-file is missing`);
  const { salt, cost } = sealing;
  if (cost !== scryptCost) throw new UsageFault(`${file} was sealed with other parameters of scrypt`);
  return deriveKey(readPassphrase(passphrase), Buffer.from(salt, 'base64'), cost);
}

function withOpened({ account, record }: Line, key: Buffer | undefined): Line {
  if (record.keys === undefined || key === undefined) return { account, record };
  const keys = record.keys.map(({ sealedSecret: sealed, ...each }) =>
    sealed === undefined
      ? each
      : { ...each, secretKey: openSecret(key, { accessKey: each.accessKey, sealed }) },
  );
  return { account, record: { ...record, keys } };
}

/** Bodies of requests have a largest size. */
const batchBytesMax = 48 * 1024;

/** Records of one account, as many as one request takes. */
async function* groupByAccount(
  lines: AsyncIterable<Line>,
): AsyncGenerator<{ readonly account: string; readonly records: readonly Line['record'][] }> {
  let account = '';
  let records: Line['record'][] = [];
  let bytes = 0;
  for await (const line of lines) {
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
