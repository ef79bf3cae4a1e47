/** The sealer over master keys held in memory. */
import type { Sealer } from '../../ports/crypto/sealer.ts';
import { nameKey, open, type SealingParts, seal, sealedUnder } from './sealing.ts';

export interface MasterSealerOptions extends SealingParts {
  /** The first one seals; all of them open, so that a key can be replaced. */
  readonly keys: readonly Uint8Array[];
}

export function masterSealer({ keys, ...parts }: MasterSealerOptions): Sealer {
  const [current, ...others] = keys.map((bytes) => nameKey(parts, bytes));
  if (current === undefined) throw new Error('there is no master key');
  const byName = new Map([...others, current].map((key) => [key.name, key]));
  return {
    seal: (plain, context) => seal(parts, plain, { key: current, context }),
    async open(sealed, context) {
      const key = byName.get(sealedUnder(sealed) ?? '');
      return key && open(parts, sealed, { key, context });
    },
    under: (key) => masterSealer({ keys: [key], ...parts }),
  };
}
