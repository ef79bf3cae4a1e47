/** Base64, as the protocol and stored records write it. */
import { decodeUtf8Strictly } from './utf8.ts';

export const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/** The base64 of a text in UTF-8. */
export const textToBase64 = (text: string): string => toBase64(new TextEncoder().encode(text));

/** @throws Error for what is not base64, TypeError for what is not UTF-8 */
export const textFromBase64 = (text: string): string => decodeUtf8Strictly(fromBase64(text));
