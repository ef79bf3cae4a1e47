/** The reply with temporary credentials. */
import { type SessionClaims, sealToken } from '../../../auth/session/session-token.ts';
import type { Context } from '../../../context.ts';
import { drawSessionPair } from '../../../domain/iam/ids.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';

export interface NewSession extends Omit<SessionClaims, 'accessKey' | 'secretKey' | 'issuedAt' | 'expires'> {
  readonly seconds: number;
}

/** @throws PackedPolicyTooLarge */
export async function issue(
  { clock, random, sealer }: Pick<Context, 'clock' | 'random' | 'sealer'>,
  { seconds, ...asked }: NewSession,
) {
  const issuedAt = clock.now();
  const claims: SessionClaims = {
    ...asked,
    ...drawSessionPair(random),
    issuedAt,
    expires: issuedAt + seconds * 1000,
  };
  const SessionToken = await sealToken(sealer, claims);
  const { accessKey, secretKey, expires } = claims;
  const Expiration = isoTime(expires);
  return { claims, shown: { AccessKeyId: accessKey, SecretAccessKey: secretKey, SessionToken, Expiration } };
}
