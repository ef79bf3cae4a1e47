/** Writes of `/bucket/key` whose content is held back halfway, in every way to write an object. */
import type { Credential } from '../../src/ports/crypto/credentials.ts';
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
  /** Whose signature the request itself has; a form is signed in its fields. */
  readonly client: Client;
  /** Makes the object of what was stored, where the answer alone does not. */
  finish(by: Client, answer: Answer): Promise<Answer>;
}

export interface Writer {
  readonly credential: Credential;
  /** By the public service's header names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of the clock that the world goes by. */
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
