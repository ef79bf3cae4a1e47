/** The digests of an hour of the audit log, and the seal that links them to the hour before. */
import { toHex } from '../../../base/text/hex.ts';
import type { Context } from '../../../context.ts';
import { auditSlots, rowsOfSlot } from '../../../metadata/audit/audit.ts';
import type { AuditSeal } from '../../../metadata/audit/seals.ts';
import type { AuditRow } from '../../../metadata/records/audit.ts';

type Ctx = Pick<Context, 'metadata' | 'hasher'>;

/** Rows that are read together. */
const pageRows = 500;
const encoder = new TextEncoder();

export interface SlotDigest {
  readonly rows: number;
  readonly digest: string;
}

/** Every column that the row has, in the order of their names: a column that a later version adds changes no digest of older rows. */
const textOf = (row: AuditRow): string =>
  JSON.stringify(
    Object.entries(row)
      .filter(([, value]) => value !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

/** @param rest called before each page, and may throw to end the walk */
export async function digestSlot(
  { metadata, hasher }: Ctx,
  { hour, slot, rest }: { readonly hour: number; readonly slot: number; readonly rest: () => Promise<void> },
): Promise<SlotDigest> {
  const hash = hasher.create('sha256');
  const cursor = rowsOfSlot(metadata, hour, slot);
  let rows = 0;
  for (;;) {
    await rest();
    const page = await cursor.next(pageRows);
    if (page.length === 0) return { rows, digest: toHex(hash.digest()) };
    rows += page.length;
    hash.update(encoder.encode(page.map(({ row }) => `${textOf(row)}\n`).join('')));
  }
}

export async function digestHour(
  ctx: Ctx,
  hour: number,
  rest: () => Promise<void>,
): Promise<{ readonly rows: number; readonly slots: readonly string[] }> {
  const slots: SlotDigest[] = [];
  for (let slot = 0; slot < auditSlots; slot += 1) slots.push(await digestSlot(ctx, { hour, slot, rest }));
  return { rows: slots.reduce((sum, { rows }) => sum + rows, 0), slots: slots.map(({ digest }) => digest) };
}

export const contentOf = ({ hasher }: Pick<Ctx, 'hasher'>, slots: readonly string[]): string =>
  hasher.sha256Hex(slots.join('\n'));

/** The hash that links an hour to the one before. */
export const linkOf = (
  { hasher }: Pick<Ctx, 'hasher'>,
  {
    previous,
    hour,
    rows,
    content,
    retentionMs,
    sealedAt,
  }: Pick<AuditSeal, 'previous' | 'hour' | 'rows' | 'content' | 'retentionMs' | 'sealedAt'>,
): string => {
  const linked = [previous, hour, rows, content, retentionMs, ...(sealedAt === undefined ? [] : [sealedAt])];
  return hasher.sha256Hex(linked.join('\n'));
};

export const witnessContext = (hour: number): string => `audit seal ${hour}`;

/** A text sealed under the master key. Base64. */
export const sealWitness = async (
  { sealer }: Pick<Context, 'sealer'>,
  text: string,
  context: string,
): Promise<string> => btoa(String.fromCharCode(...(await sealer.seal(encoder.encode(text), context))));

/** The text that was sealed; undefined when no known master key opens it. */
export async function openWitness(
  { sealer }: Pick<Context, 'sealer'>,
  witness: string,
  context: string,
): Promise<string | undefined> {
  try {
    const sealed = Uint8Array.from(atob(witness), (character) => character.charCodeAt(0));
    const opened = await sealer.open(sealed, context);
    return opened && new TextDecoder().decode(opened);
  } catch {
    return undefined;
  }
}
