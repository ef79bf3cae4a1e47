/** The signing key of a bucket: rotated, with its secret shown once, and removed. */
import { useState } from 'preact/hooks';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useChange } from '../../app/queries.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Copy } from '../../ui/copy.tsx';
import { type NewKey, SecretOnce } from '../../ui/secret-once.tsx';
import { Time } from '../../ui/values.tsx';
import { w } from './words.ts';

interface SigningKeyProps {
  readonly bucket: Pick<Answer<'GetBucket'>, 'name' | 'signingKey'>;
}

export function SigningKey({ bucket: { name, signingKey } }: SigningKeyProps) {
  const mayRotate = onBucket('RotateBucketSigningKey', name);
  const mayRemove = onBucket('DeleteBucketSigningKey', name);
  const allowed = useAllowed([mayRotate, mayRemove]);
  const rotate = useChange('RotateBucketSigningKey', ['GetBucket']);
  const remove = useChange('DeleteBucketSigningKey', ['GetBucket']);
  const [made, setMade] = useState<NewKey>();
  const isSet = signingKey !== undefined;
  return (
    <>
      {isSet ? (
        <>
          <Copy text={signingKey.keyId} /> · <Time at={signingKey.createdAt} />
          {signingKey.isExpired && ` · ${w.keyExpired}`}. {w.signingKeyHint}
        </>
      ) : (
        w.noSigningKey
      )}
      {made !== undefined && <SecretOnce made={made} onDone={() => setMade(undefined)} />}
      {made === undefined && (
        // At the end of the line, where the other rules have their link.
        <span class="actions" style={{ marginInlineStart: 'auto' }}>
          {allowed(mayRotate) === true && (
            <ConfirmButton
              icon="key"
              title={isSet ? w.rotateAsk(name) : w.setKeyAsk(name)}
              text={isSet ? w.rotateText : w.setKeyText}
              typed={name}
              action={isSet ? w.rotate : w.setKey}
              onConfirm={async () => {
                const { key_id, secret_access_key } = await rotate.mutateAsync({ path: { name }, body: {} });
                setMade({ accessKey: key_id, secretKey: secret_access_key });
              }}
            />
          )}
          {isSet && allowed(mayRemove) === true && (
            <ConfirmButton
              icon="trash"
              title={w.removeKeyAsk(name)}
              text={w.removeKeyText}
              typed={name}
              action={w.removeKey}
              onConfirm={() => remove.mutateAsync({ path: { name } })}
            />
          )}
        </span>
      )}
    </>
  );
}
