/**
 * The key provider for one machine: named keys from a file, wrapping in this process. It keeps the rules of a hardware
 * module: a key is named by id or alias, nothing but wrapped keys leaves, and changed ciphertext is distinguished from what was
 * wrapped under another key.
 */
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import { type KeyContext, KeyFailure, type KeyProvider, type WrappedKey } from '../../ports/key-provider.ts';
import { bareKeyId, canonicalText } from './key-names.ts';
import { describeKey, type KeyAccountsOptions } from './key-requests.ts';
import { type NamedKey, nameKey, open, type SealingParts, seal, sealedUnder } from './sealing.ts';

interface LocalHsmOptions extends SealingParts, Pick<KeyAccountsOptions, 'accounts' | 'soleAccount'> {
  readonly keys: ReadonlyMap<string, Uint8Array>;
  /** Ids by alias. */
  readonly aliases: ReadonlyMap<string, string>;
  /** The id, alias or ARN of the key of requests that name none. */
  readonly defaultKey?: string | undefined;
}

interface FoundKey {
  readonly keyId: string;
  readonly key: NamedKey;
}

export function localHsm({
  keys,
  aliases,
  accounts,
  soleAccount,
  defaultKey,
  ...parts
}: LocalHsmOptions): KeyProvider {
  const named = new Map([...keys].map(([id, bytes]) => [id, nameKey(parts, bytes)]));

  const toKeyId = (name: string): string => {
    // SDKs and policies also name keys by ARN; its beginning is not checked here.
    const id = bareKeyId(name);
    return aliases.get(id) ?? id;
  };
  const policy = {
    ...(accounts === undefined ? {} : { accounts }),
    soleAccount,
    defaultKeyId: defaultKey === undefined ? undefined : toKeyId(defaultKey),
  };
  const find = (name: string): FoundKey => {
    const keyId = toKeyId(name);
    const key = named.get(keyId);
    if (key === undefined) throw new KeyFailure('unknown-key', `there is no key ${name}`);
    return { keyId, key };
  };
  const wrapUnder = async ({ keyId, key }: FoundKey, plain: Uint8Array, context: KeyContext) => ({
    keyId,
    wrapped: await seal(parts, plain, { key, context: canonicalText(context) }),
  });

  return {
    describe: async (keyId) => describeKey(find(keyId).keyId, policy),
    async generate(keyId, context) {
      const key = parts.random.bytes(cipherKeyBytes);
      return { ...(await wrapUnder(find(keyId), key, context)), key };
    },
    wrap: async (keyId, key, context): Promise<WrappedKey> => wrapUnder(find(keyId), key, context),
    async unwrap({ keyId, wrapped }, context) {
      const { key } = find(keyId);
      const name = sealedUnder(wrapped);
      if (name !== undefined && name !== key.name)
        throw new KeyFailure('denied', `it was not wrapped under ${keyId}`);
      const plain = await open(parts, wrapped, { key, context: canonicalText(context) });
      if (plain === undefined) throw new KeyFailure('tampered', `it is not what ${keyId} wrapped`);
      return plain;
    },
  };
}
