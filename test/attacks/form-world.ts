/** Forms that alice signs and others send, and the checks that a refused form changed nothing. */
import { expect } from 'vitest';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import {
  encodeForm,
  type FormPart,
  fieldsOf,
  fileOf,
  multipart,
  type PolicySpec,
  signForm,
} from '../support/post-form.ts';

export const bucket = { bucket: 'bucket' };
export const anyKey = ['starts-with', '$key', ''];
export const covered = [bucket, anyKey];
export interface Spec extends Partial<PolicySpec> {
  readonly policy?: string;
}
export const sign = (spec: Spec = {}) => signForm(alice, { conditions: covered, ...spec });
export const form = (fields: Readonly<Record<string, string>> = {}, spec: Spec = {}): FormPart[] => [
  ...fieldsOf({ key: 'k', ...fields, ...sign(spec) }),
  fileOf('content'),
];

type Refuses = (
  answer: Promise<Answer>,
  status: number,
  code: string,
  message?: string | RegExp,
) => Promise<void>;

export interface FormWorld {
  readonly world: GatewayWorld;
  readonly send: (
    body: Uint8Array | string,
    headers?: Record<string, string>,
    path?: string,
  ) => Promise<Answer>;
  readonly post: (parts: readonly FormPart[], path?: string) => Promise<Answer>;
  /** Expects that the form is refused and that the key has the content of the last positive control. */
  readonly refuses: Refuses;
}

export async function openFormWorld(): Promise<FormWorld> {
  const world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/other');
  const send: FormWorld['send'] = (body, headers = multipart(), path = '/bucket') =>
    world.anonymous.post(path, { body, headers });
  const post: FormWorld['post'] = (parts, path) => send(encodeForm(parts), multipart(), path);
  const refuses: Refuses = async (answer, status, code, message) => {
    const { status: found, code: said, one } = await answer;
    expect([found, said, one('Message')]).toEqual([
      status,
      code,
      message === undefined ? expect.any(String) : expect.stringMatching(message),
    ]);
    expect((await world.client.head('/bucket/k')).status).toBe(404);
    expect((await world.client.head('/other/k')).status).toBe(404);
  };
  return { world, send, post, refuses };
}
