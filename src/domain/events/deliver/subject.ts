/** The bucket and the object that a message is about. */

interface Message {
  /** Of a test event. */
  readonly Bucket?: string;
  readonly Records?: readonly {
    readonly s3: {
      readonly bucket: { readonly name: string };
      readonly object: { readonly key: string; readonly sequencer: string };
    };
  }[];
}

export interface Subject {
  readonly bucket: string;
  /** Absent in test events. */
  readonly key?: string;
  readonly sequencer?: string;
}

/** Records have encoded keys. */
export const decodeKey = (key: string): string => decodeURIComponent(key.replaceAll('+', ' '));

export function readSubject(message: object): Subject {
  // The cast: the events of a bucket build the messages.
  const { Bucket = '', Records } = message as Message;
  const s3 = Records?.[0]?.s3;
  if (s3 === undefined) return { bucket: Bucket };
  return {
    bucket: s3.bucket.name,
    key: decodeKey(s3.object.key),
    sequencer: s3.object.sequencer,
  };
}
