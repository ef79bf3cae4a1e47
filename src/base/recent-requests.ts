/** The last requests of the storage protocol to this process, for operators. Refused and failed ones have a ring of their own. */
import { copyStart, RecentEntries, type Timed } from './recent-entries.ts';

/** Requests that are kept; with the texts below, at most 8 MiB. */
const sizes = { refused: 1_024, answered: 4_096 } as const;
/** A text may be a slice of the request's target: beyond this length it is copied, so that the target is not kept. */
const targetMax = 512;
const textMax = 512;
const addressMax = 64;

export interface RequestEntry extends Timed {
  readonly requestId: string;
  readonly operation: string;
  readonly method: string;
  readonly status: number;
  /** The error code of a refusal. */
  readonly code: string | undefined;
  readonly durationMs: number;
  /** '' where the request is about no bucket. */
  readonly bucket: string;
  readonly key: string;
  /** Of the caller; '' where it is unknown. */
  readonly account: string;
  readonly remote: string;
  /** Bytes of its body that were read. */
  readonly receivedBytes: number;
}

export class RecentRequests {
  readonly entries = new RecentEntries<RequestEntry>([sizes.refused, sizes.answered]);

  /** @param targetLength of the request */
  add(entry: RequestEntry, targetLength: number): void {
    const isShort =
      targetLength <= targetMax && entry.bucket.length <= textMax && entry.remote.length <= addressMax;
    this.entries.add(entry.status >= 400 ? 0 : 1, isShort ? entry : shorten(entry));
  }
}

const shorten = (entry: RequestEntry): RequestEntry => ({
  ...entry,
  bucket: copyStart(entry.bucket, textMax),
  key: copyStart(entry.key, textMax),
  remote: copyStart(entry.remote, addressMax),
});
