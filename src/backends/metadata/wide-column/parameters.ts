/** Statements as text, so that any process can finish a commit that was cut short, without knowing its tables. */
import type { Statement } from './session/session.ts';

type Written = null | string | boolean | number | { readonly big: string } | { readonly bytes: string };

const write = (value: unknown): Written => {
  if (typeof value === 'bigint') return { big: String(value) };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') };
  return value as Written;
};
const read = (value: Written): unknown => {
  if (typeof value !== 'object' || value === null) return value;
  return 'big' in value ? BigInt(value.big) : Buffer.from(value.bytes, 'base64');
};

export const writeStatements = (statements: readonly Statement[]): string =>
  JSON.stringify(statements.map(({ query, params }) => [query, params.map(write)]));

export const readStatements = (text: string): Statement[] =>
  (JSON.parse(text) as readonly (readonly [string, readonly Written[]])[]).map(([query, params]) => ({
    query,
    params: params.map(read),
  }));
