/** Counts the signing keys of buckets by age. */
import type { SigningKey } from '../../metadata/tables.ts';
import type { SigningKeyAges } from '../../ports/telemetry.ts';

export interface SigningKeyRules {
  /** SVC_KEY_MAX_AGE. */
  readonly maxAgeMs: number;
  readonly now: number;
}

/** A key that expires within this time is to be rotated. */
const noticeMs = 14 * 24 * 60 * 60 * 1000;

export class SigningKeySample {
  readonly #rules: SigningKeyRules;
  readonly #counts = { valid: 0, expiring: 0, expired: 0 };
  #oldestMs = 0;

  constructor(rules: SigningKeyRules) {
    this.#rules = rules;
  }

  add(key: SigningKey | undefined): void {
    if (key === undefined) return;
    const { maxAgeMs, now } = this.#rules;
    const ageMs = now - key.createdAt;
    this.#oldestMs = Math.max(this.#oldestMs, ageMs);
    this.#counts[ageMs >= maxAgeMs ? 'expired' : ageMs >= maxAgeMs - noticeMs ? 'expiring' : 'valid'] += 1;
  }

  ages(): SigningKeyAges {
    return { ...this.#counts, oldestSeconds: Math.round(this.#oldestMs / 1000) };
  }
}
