/** Object bytes as one trace sees them: a write is one span, a read one until its first bytes. */
import type {
  ByteRange,
  Extent,
  ObjectBytes,
  UploadBytes,
  WriteOptions,
} from '../../../ports/storage/object-bytes.ts';
import type { CallRecorder } from './call-recorder.ts';

export class TracedBytes implements ObjectBytes {
  readonly #bytes: ObjectBytes;
  readonly #trace: CallRecorder;

  constructor(bytes: ObjectBytes, trace: CallRecorder) {
    this.#bytes = bytes;
    this.#trace = trace;
  }

  get clusters() {
    return this.#bytes.clusters;
  }
  get pieceBytes() {
    return this.#bytes.pieceBytes;
  }
  get uploads() {
    return this.#bytes.uploads && tracedUploads(this.#bytes.uploads, this.#trace);
  }
  get marks() {
    return this.#bytes.marks;
  }
  get foreign() {
    return this.#bytes.foreign;
  }
  get removals() {
    return this.#bytes.removals;
  }
  get verifies() {
    return this.#bytes.verifies?.bind(this.#bytes);
  }
  get compact() {
    return this.#bytes.compact?.bind(this.#bytes);
  }

  write(source: AsyncIterable<Uint8Array>, options: WriteOptions) {
    const cause = this.#trace.begin('data.write', options.cluster);
    return this.#trace.follow(
      cause,
      this.#bytes.write(source, cause === undefined ? options : { ...options, cause }),
    );
  }

  read(extent: Extent, range?: ByteRange, signal?: AbortSignal): AsyncIterable<Uint8Array> {
    return new TracedRead(this.#bytes, this.#trace, { extent, range, signal });
  }

  remove(extents: readonly Extent[]) {
    return this.#trace.follow(
      this.#trace.begin('data.remove', extents[0]?.cluster ?? 'none'),
      this.#bytes.remove(extents),
    );
  }
  find(cluster: string, ...prefixes: readonly string[]) {
    return this.#bytes.find(cluster, ...prefixes);
  }
  holdsAnything(cluster: string) {
    return this.#bytes.holdsAnything(cluster);
  }
  isStored(extent: Extent) {
    return this.#trace.follow(
      this.#trace.begin('data.isStored', extent.cluster),
      this.#bytes.isStored(extent),
    );
  }
  health() {
    return this.#bytes.health();
  }
  close() {
    return this.#bytes.close();
  }
}

interface Asked {
  readonly extent: Extent;
  readonly range: ByteRange | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The first bytes are one span; the rest comes at the pace of its reader. */
class TracedRead implements AsyncIterableIterator<Uint8Array> {
  readonly #bytes: ObjectBytes;
  readonly #trace: CallRecorder;
  readonly #asked: Asked;
  #iterator: AsyncIterator<Uint8Array> | undefined;

  constructor(bytes: ObjectBytes, trace: CallRecorder, asked: Asked) {
    this.#bytes = bytes;
    this.#trace = trace;
    this.#asked = asked;
  }

  /** A second reader begins anew. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    return this.#iterator === undefined ? this : new TracedRead(this.#bytes, this.#trace, this.#asked);
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#iterator !== undefined) return this.#iterator.next();
    const { extent, range, signal } = this.#asked;
    const span = this.#trace.begin('data.read', extent.cluster);
    this.#iterator = this.#bytes.read(extent, range, signal, span)[Symbol.asyncIterator]();
    return this.#trace.follow(span, this.#iterator.next());
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    return (await this.#iterator?.return?.()) ?? { value: undefined, done: true };
  }
}

const tracedUploads = (uploads: UploadBytes, trace: CallRecorder): UploadBytes => ({
  begin(options) {
    const cause = trace.begin('data.beginUpload', options.cluster);
    return trace.follow(cause, uploads.begin({ ...options, cause }));
  },
  writePart(source, options) {
    const cause = trace.begin('data.writePart', options.upload.cluster);
    return trace.follow(cause, uploads.writePart(source, { ...options, cause }));
  },
  complete(upload, parts) {
    const cause = trace.begin('data.completeUpload', upload.cluster);
    return trace.follow(cause, uploads.complete(upload, parts, cause));
  },
  discard(upload) {
    const cause = trace.begin('data.discardUpload', upload.cluster);
    return trace.follow(cause, uploads.discard(upload, cause));
  },
});
