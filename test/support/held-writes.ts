/** Writes of `/bucket/key` whose content is held back halfway, in every way to write an object. */
import type { Credential } from '../../src/ports/credentials.ts';
import type { GatewayWorld } from './gateway.ts';
import { complete, createUpload } from './gateway-bodies.ts';
import type { Answer, Client } from './gateway-client.ts';
import type { HeldRequest } from './held-body.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from './post-form.ts';

/** Long enough that a part of it is stored while the rest is held back. */
export const heldContent = '0123456789'.repeat(30_000);
const earlyBytes = 200_000;

export interface HeldWrite {
  readonly request: HeldRequest;
  /** The client that signs the request; anonymous for a form, which is signed in its fields. */
  readonly client: Client;
  /** Completes the object after the answer, where further requests are needed. */
  finish(by: Client, answer: Answer): Promise<Answer>;
}

export interface Writer {
  readonly credential: Credential;
  /** Further headers, by the names of the public service. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The present time of the world's clock. */
  readonly now?: number;
}

type Begin = (world: Pick<GatewayWorld, 'as' | 'client'>, writer: Writer) => Promise<HeldWrite>;

const alreadyThere: HeldWrite['finish'] = async (_, answer) => answer;

export const heldWrites: Readonly<Record<'PutObject' | 'UploadPart' | 'PostObject', Begin>> = {
  PutObject: async (world, { credential, headers = {} }) => ({
    request: {
      method: 'PUT',
      path: '/bucket/key',
      ask: { body: heldContent, headers },
      early: earlyBytes,
    },
    client: world.as({ credential }),
    finish: alreadyThere,
  }),
  UploadPart: async (world, { credential, headers = {} }) => {
    const uploadId = await createUpload(world.client, '/bucket/key', { headers });
    return {
      request: {
        method: 'PUT',
        path: `/bucket/key?partNumber=1&uploadId=${uploadId}`,
        ask: { body: heldContent },
        early: earlyBytes,
      },
      client: world.as({ credential }),
      finish: (by, answer) =>
        complete(by, '/bucket/key', {
          uploadId,
          parts: [{ number: 1, etag: answer.header('etag') ?? '' }],
        }),
    };
  },
  PostObject: async (world, { credential, headers = {}, now }) => {
    const conditions = [
      { bucket: 'bucket' },
      { key: 'key' },
      ...Object.entries(headers).map(([name, value]) => ({ [name]: value })),
    ];
    const signed = signForm(credential, { conditions, ...(now === undefined ? {} : { now }) });
    const form = encodeForm([...fieldsOf({ key: 'key', ...headers, ...signed }), fileOf(heldContent)]);
    return {
      request: {
        method: 'POST',
        path: '/bucket',
        ask: { body: form, headers: multipart() },
        early: earlyBytes,
      },
      client: world.as({ anonymous: true }),
      finish: alreadyThere,
    };
  },
};
export const heldWriteNames = Object.keys(heldWrites) as readonly (keyof typeof heldWrites)[];
