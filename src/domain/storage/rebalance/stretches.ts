/** Splits a manifest into pieces that one commit can replace: its inline extents, or one of its rows. */
import type { Context } from '../../../context.ts';
import { manifestParts, manifestRow } from '../../../metadata/objects/objects.ts';
import type { Manifest, ManifestPart, ObjectRow } from '../../../metadata/tables.ts';
import { commitLimits, type SideChange } from '../../../ports/metadata-store.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';

type Ctx = Pick<Context, 'metadata'>;

export interface Stretch {
  readonly pieces: readonly Piece[];
  /** Set for a manifest that has rows of its own. */
  readonly segment?: number;
}

/** An extent, with its part number for a multipart object. */
export type Piece = { readonly extent: Extent } | ManifestPart;

export async function* readStretches(ctx: Ctx, manifest: Manifest): AsyncGenerator<Stretch> {
  const inline = inlinePieces(manifest);
  if (inline !== undefined) yield { pieces: inline };
  else if ('manifestId' in manifest) {
    let segment = 0;
    for await (const pieces of manifestParts(ctx.metadata, manifest.manifestId)) {
      yield { pieces, segment };
      segment += 1;
    }
  }
}

/** Whether a version still has these extents in this place. */
export async function stillHolds(
  ctx: Ctx,
  { manifest }: ObjectRow,
  { pieces, segment }: Stretch,
): Promise<boolean> {
  const now = segment === undefined ? inlinePieces(manifest) : await readSegment(ctx, manifest, segment);
  return now?.length === pieces.length && now.every((piece, i) => isSame(piece.extent, pieces[i]?.extent));
}

const isSame = (one: Extent, other: Extent | undefined): boolean =>
  one.id === other?.id && one.cluster === other.cluster;

function inlinePieces(manifest: Manifest): readonly Piece[] | undefined {
  if ('extents' in manifest) return manifest.extents.map((extent) => ({ extent }));
  if (manifest.whole !== undefined) return [{ extent: manifest.whole }];
  return 'parts' in manifest ? manifest.parts : undefined;
}

async function readSegment(
  ctx: Ctx,
  manifest: Manifest,
  segment: number,
): Promise<readonly Piece[] | undefined> {
  if (!('manifestId' in manifest)) return undefined;
  return (await manifestParts(ctx.metadata, manifest.manifestId, segment).next()).value ?? undefined;
}

/** The row with other extents in one stretch, and the side changes that must be committed with it. */
export interface Replaced {
  readonly row: ObjectRow;
  readonly then: readonly SideChange[];
}

/** @param copies by the ids of the extents that they replace @param id names the manifest's rows, where it needs some */
export function withCopies(
  row: ObjectRow,
  { pieces, segment }: Stretch,
  { copies, id }: { readonly copies: ReadonlyMap<string, Extent>; readonly id: string },
): Replaced {
  const { manifest } = row;
  const next = pieces.map((piece) => ({ ...piece, extent: copies.get(piece.extent.id) ?? piece.extent }));
  if ('extents' in manifest)
    return { row: { ...row, manifest: { extents: next.map(({ extent }) => extent) } }, then: [] };
  const [{ extent: whole } = {}] = next;
  if (manifest.whole !== undefined && whole !== undefined)
    return { row: { ...row, manifest: { ...manifest, whole } }, then: [] };
  // The cast is safe: manifests without parts returned above.
  const parts = next as readonly ManifestPart[];
  if ('manifestId' in manifest) return { row, then: [manifestRow(manifest.manifestId, segment ?? 0, parts)] };
  const inline = { ...row, manifest: { parts } };
  if (JSON.stringify(inline).length <= rowMax) return { row: inline, then: [] };
  // The notes of copies may be longer than those of the originals.
  const segmented = { manifestId: id, partCount: parts.length, offsets: [0] };
  return { row: { ...row, manifest: segmented }, then: [manifestRow(id, 0, parts)] };
}

/** A row of this length fits, however its store counts the overhead. */
const rowMax = commitLimits.rowBytes - 1024;
