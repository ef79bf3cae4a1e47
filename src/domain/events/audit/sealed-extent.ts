/**
 * How far the hours of the audit log were sealed, noted beside the chain after each seal. Where the whole chain was removed with its head and
 * rows, or its head was set back and the hours after it were sealed again, the verification finds what the note says missing or replaced
 * (docs/adr/0028-audit-hours-are-sealed.md).
 */
import type { Context } from '../../../context.ts';
import {
  type AuditHead,
  findAuditSeal,
  findSealedExtent,
  putSealedExtent,
  type SealedExtent,
} from '../../../metadata/audit/seals.ts';
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import { openWitness, sealWitness } from './digest-hour.ts';

type Ctx = Pick<Context, 'metadata' | 'sealer' | 'telemetry'>;

const witnessContext = 'audit sealed extent';

const textOf = ({ first, hour, seal, replaced }: Omit<SealedExtent, 'witness'>): string =>
  JSON.stringify([first, hour, seal, replaced ?? null]);

/** Call it after the commit of a seal. The extent never shrinks: it says what was sealed, not what the chain says now. */
export async function noteSealed(ctx: Ctx, head: AuditHead): Promise<void> {
  const { metadata, telemetry } = ctx;
  try {
    const found = await findSealedExtent(metadata);
    const former = found?.state;
    if (former !== undefined && head.hour <= former.hour) {
      const fields = { hour: head.hour, sealedThrough: former.hour };
      telemetry.log(
        'ERROR',
        'an hour of the audit log is sealed again: its chain was removed or set back',
        fields,
      );
      return;
    }
    const replaced = former && (former.replaced ?? (await findReplaced(ctx, former)));
    const extent = {
      ...{ first: former?.first ?? head.first, hour: head.hour, seal: head.seal },
      ...(replaced === undefined ? {} : { replaced }),
    };
    const witness = await sealWitness(ctx, textOf(extent), witnessContext);
    // Where another leader was first, its extent is the later one.
    await putSealedExtent(metadata, { ...extent, witness }, found?.revision ?? 'absent');
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    // The hours must be sealed all the same.
    telemetry.log('ERROR', 'the extent of the sealed audit log is damaged', { cause });
  }
}

/** The last noted hour, if the chain has another seal for it, or none. */
async function findReplaced(
  { metadata }: Pick<Ctx, 'metadata'>,
  { hour, seal }: SealedExtent,
): Promise<number | undefined> {
  return (await findAuditSeal(metadata, hour))?.state.seal === seal ? undefined : hour;
}

/** What contradicts the extent; undefined where nothing does. */
export interface ExtentGap {
  readonly kind: 'seal-missing' | 'seal-altered';
  readonly hour: number;
}

/** @param extent was read before `head`, because a leader may seal an hour in between */
export async function compareExtent(
  ctx: Pick<Ctx, 'metadata' | 'sealer'>,
  extent: SealedExtent,
  head: AuditHead | undefined,
): Promise<ExtentGap | undefined> {
  const { first, hour, replaced } = extent;
  const witnessed = await openWitness(ctx, extent.witness, witnessContext);
  if (witnessed !== undefined && witnessed !== textOf(extent)) return { kind: 'seal-altered', hour };
  if (head === undefined || head.first > first) return { kind: 'seal-missing', hour: first };
  if (head.hour < hour) return { kind: 'seal-missing', hour: head.hour + 1 };
  const altered = replaced ?? (await findReplaced(ctx, extent));
  return altered === undefined ? undefined : { kind: 'seal-altered', hour: altered };
}
