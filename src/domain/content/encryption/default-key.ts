/** The key of the key provider for a request that names none (spec, "Operator JSON API"; docs/gaps.md, E2), and how refusals name it. */
import type { Context } from '../../../context.ts';
import { fail, Refusal } from '../../../errors/refusal.ts';

type Ctx = Pick<Context, 'config'>;

/** SVC_KMS_DEFAULT_KEY_ID, then the name of the bucket. */
export const keyIdOrDefault = ({ config }: Ctx, bucket: string, keyId: string | undefined): string =>
  keyId ?? config.SVC_KMS_DEFAULT_KEY_ID ?? bucket;

const refusals: Readonly<Record<string, (key: string) => string>> = {
  'KMS.NotFoundException': (key) => `The key provider has no ${key}.`,
  KeyDenied: (key) => `The key provider does not let this service use the ${key}.`,
};

/** A refusal of the key provider whose text names the key that was asked for, because a caller that names none cannot know it. */
export function withKeyId(
  { config }: Ctx,
  cause: unknown,
  asked: {
    readonly bucket: string;
    readonly keyId: string | undefined;
    /** What the caller may name a key with. */
    readonly parameter: string;
    /** Only operators see the value of SVC_KMS_DEFAULT_KEY_ID, and which field of their JSON is wrong. */
    readonly toOperator: boolean;
  },
): unknown {
  const refusal = cause instanceof Refusal ? refusals[cause.code] : undefined;
  if (!(cause instanceof Refusal) || refusal === undefined) return cause;
  const { bucket, keyId, parameter, toOperator } = asked;
  const { SVC_KMS_DEFAULT_KEY_ID: byDefault } = config;
  const message = (key: string, why = ''): unknown =>
    fail(cause.code, {
      ...cause.details,
      message: refusal(key) + why,
      ...(toOperator ? { field: parameter } : {}),
    });
  if (keyId !== undefined) return message(`key "${keyId}"`);
  const none = ` The request has no ${parameter}`;
  if (byDefault === undefined)
    return message(
      `key "${bucket}"`,
      `${none} and SVC_KMS_DEFAULT_KEY_ID is not set, so the id is the name of the bucket.`,
    );
  return toOperator
    ? message(`key "${byDefault}"`, `${none}; the id is the value of SVC_KMS_DEFAULT_KEY_ID.`)
    : message('default key', `${none}; an operator must correct SVC_KMS_DEFAULT_KEY_ID.`);
}
