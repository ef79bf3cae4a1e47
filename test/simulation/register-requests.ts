/** Requests of a client to a key that it uses as a register: every way to write, read and delete it, with and without conditions. */
import { createHash } from 'node:crypto';
import type { Action, Value } from '../support/linearizable.ts';
import {
  type Answer,
  completeSpec,
  createUpload,
  elements,
  type LoadClient,
} from '../support/load-client.ts';
import { md5Hex } from '../support/load-model.ts';
import type { RequestSpec } from '../support/sign.ts';

export interface Place {
  readonly bucket: string;
  readonly key: string;
  readonly path: string;
}

export interface Wanted {
  readonly random: () => number;
  readonly place: Place;
  /** The value that the client last saw, for its conditions. */
  readonly seen: Value;
  /** A value that no other write uses. */
  readonly body: string;
}

/** The one request that acts on the register, and its action. */
export interface Prepared {
  readonly action: Action;
  readonly spec: RequestSpec;
}

export const etagOfBytes = (bytes: Uint8Array): string => `"${md5Hex(bytes)}"`;
/** The ETag of an object that was uploaded as one part. */
export const etagOfPart = (bytes: Uint8Array): string =>
  `"${md5Hex(createHash('md5').update(bytes).digest())}-1"`;

/** The ETag in an answer: in a header, or in the body after a copy or a completion. */
export const etagIn = (answer: Answer): Value =>
  answer.headers.etag === undefined ? elements(answer.text, 'ETag')[0] : String(answer.headers.etag);

type Way = (
  client: LoadClient,
  wanted: Wanted,
) => Promise<{ readonly value: string; readonly spec: RequestSpec }>;

const ways: readonly (readonly [share: number, way: Way])[] = [
  [
    0.7,
    async (_, { place: { path }, body }) => ({
      value: etagOfBytes(Buffer.from(body)),
      spec: { method: 'PUT', path, body },
    }),
  ],
  [
    0.15,
    async (client, { place: { path }, body }) => {
      const source = `${path}-from-${encodeURIComponent(body)}`;
      await client.expect({ method: 'PUT', path: source, body });
      const headers = { 'x-amz-copy-source': source };
      return { value: etagOfBytes(Buffer.from(body)), spec: { method: 'PUT', path, headers } };
    },
  ],
  [
    0.15,
    async (client, { place: { bucket, key, path }, body }) => {
      const uploadId = await createUpload(client, bucket, key);
      const query = { uploadId, partNumber: '1' };
      const { headers } = await client.expect({ method: 'PUT', path, query, body });
      const spec = completeSpec({ bucket, key, uploadId }, [String(headers.etag)]);
      return { value: etagOfPart(Buffer.from(body)), spec };
    },
  ],
];

function wayOf(dice: number): Way {
  let left = dice;
  for (const [share, way] of ways) {
    if (left < share) return way;
    left -= share;
  }
  return (ways[0] as (typeof ways)[number])[1];
}

const conditionOf = (seen: Value): Record<string, string> =>
  seen === undefined ? { 'if-none-match': '*' } : { 'if-match': seen };

/** Prepares the request, for example an upload with its part, and returns it. */
export async function prepareRequest(client: LoadClient, wanted: Wanted): Promise<Prepared> {
  const { random, place, seen } = wanted;
  const { path } = place;
  const dice = random();
  if (dice < 0.3) return { action: { do: 'read', saw: undefined }, spec: { path } };
  if (dice < 0.35) return { action: { do: 'read', saw: undefined }, spec: { method: 'HEAD', path } };
  if (dice < 0.45) {
    const action: Action = { do: 'write', value: undefined };
    const spec = { method: 'DELETE', path };
    if (dice < 0.42 || seen === undefined) return { action, spec };
    return { action: { ...action, if: { holds: seen } }, spec: { ...spec, headers: conditionOf(seen) } };
  }
  const { value, spec } = await wayOf(random())(client, wanted);
  if (dice < 0.7) return { action: { do: 'write', value }, spec };
  const headers = { ...(spec.headers as Record<string, string>), ...conditionOf(seen) };
  return { action: { do: 'write', value, if: { holds: seen } }, spec: { ...spec, headers } };
}
