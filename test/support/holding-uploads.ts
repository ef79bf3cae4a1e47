/** A byte store in memory that holds the parts of uploads itself, as S3 upstreams do: the model of `UploadBytes`. */
import {
  type Extent,
  type ForwardedUpload,
  type FoundExtent,
  type ObjectBytes,
  type Owner,
  PartsChanged,
  type UploadBytes,
  UploadGone,
  unknownSize,
} from '../../src/ports/object-bytes.ts';

interface Held {
  readonly id: string;
  readonly owner: Owner;
  readonly parts: Map<number, { readonly receipt: string; readonly bytes: Uint8Array }>;
}

export function holdingUploads(bytes: ObjectBytes): ObjectBytes {
  const held = new Map<string, Held>();
  /** The parts of completed uploads. */
  const made = new Map<string, string>();
  let receipts = 0;

  const heldUnder = ({ uploadId }: ForwardedUpload): Held => {
    const found = held.get(uploadId);
    if (found === undefined) throw new UploadGone(uploadId);
    return found;
  };

  const uploads: UploadBytes = {
    async begin({ cluster, id, owner }) {
      const uploadId = `held-${id}`;
      held.set(uploadId, { id, owner, parts: new Map() });
      return { cluster, bucket: 'store', key: id, uploadId };
    },
    async writePart(source, { upload, part }) {
      const { parts } = heldUnder(upload);
      const pieces: number[] = [];
      for await (const piece of source) pieces.push(...piece);
      const bytes = Uint8Array.from(pieces);
      receipts += 1;
      parts.set(part, { receipt: String(receipts), bytes });
      return { part, size: bytes.length, receipt: String(receipts) };
    },
    async complete(upload, listed) {
      const digest = JSON.stringify(listed);
      if (!held.has(upload.uploadId) && made.get(upload.uploadId) === digest) return;
      const { id, owner, parts } = heldUnder(upload);
      const chosen = listed.map(({ part, receipt }) => {
        const found = parts.get(part);
        if (found?.receipt !== receipt) throw new PartsChanged(String(part));
        return found.bytes;
      });
      held.delete(upload.uploadId);
      made.set(upload.uploadId, digest);
      const source = (async function* () {
        yield* chosen;
      })();
      await bytes.write(source, { cluster: upload.cluster, id, owner });
    },
    async discard(upload) {
      held.delete(upload.uploadId);
      made.delete(upload.uploadId);
      await bytes.remove([{ cluster: upload.cluster, id: upload.key, size: unknownSize }]);
    },
  };

  return {
    ...bytes,
    uploads,
    async *find(cluster, ...prefixes): AsyncGenerator<FoundExtent> {
      yield* bytes.find(cluster, ...prefixes);
      for (const { id, owner } of held.values()) {
        if (!prefixes.some((prefix) => `${id}.`.startsWith(prefix))) continue;
        const { uploadId } = owner;
        yield {
          extent: { cluster, id, size: unknownSize },
          owner: { bucketId: '', key: '', ...(uploadId === undefined ? {} : { uploadId }) },
        };
      }
    },
    holdsAnything: async (cluster) => held.size > 0 || bytes.holdsAnything(cluster),
    isStored: async (extent) => held.has(`held-${extent.id}`) || bytes.isStored(extent),
    async remove(extents: readonly Extent[]) {
      for (const { id, size } of extents) if (size === unknownSize) held.delete(`held-${id}`);
      await bytes.remove(extents);
    },
  };
}
