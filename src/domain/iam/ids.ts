/** Unique ids and key pairs, in the shapes of the public API. */
import type { Random } from '../../ports/random.ts';

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const secretLetters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The alphabets have 32 and 64 letters, so that every letter is equally likely. */
const draw = (random: Random, alphabet: string, length: number): string =>
  Array.from(random.bytes(length), (byte) => alphabet[byte % alphabet.length]).join('');

export const drawUserId = (random: Random): string => `AIDA${draw(random, letters, 17)}`;
export const drawGroupId = (random: Random): string => `AGPA${draw(random, letters, 17)}`;
export const drawRoleId = (random: Random): string => `AROA${draw(random, letters, 17)}`;
export const drawPolicyId = (random: Random): string => `ANPA${draw(random, letters, 17)}`;

export interface KeyPair {
  readonly accessKey: string;
  readonly secretKey: string;
}

/** The access key has 80 random bits, the secret 240. */
const drawPair = (random: Random, prefix: string): KeyPair => ({
  accessKey: prefix + draw(random, letters, 16),
  secretKey: draw(random, secretLetters, 40),
});
export const drawKeyPair = (random: Random): KeyPair => drawPair(random, 'AKIA');
export const drawSessionPair = (random: Random): KeyPair => drawPair(random, 'ASIA');
