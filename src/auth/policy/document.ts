/**
 * A policy document of a given kind: text in, compiled statements out, or `MalformedPolicy` with the place of the error.
 *
 * Elements, operators, keys, principals and variables that the engine does not know are refused and never ignored, because an ignored
 * one would make a Deny fail open.
 */

import { malformed, parseJson, quoted } from './json.ts';
import { compileStatement, type Statement, type StatementRules } from './statement.ts';
import { type CompiledSize, checkCompiledSize, sizeOfStatements } from './variables.ts';

export type PolicyKind = 'identity' | 'bucket' | 'session' | 'trust' | 'access-point';

export interface PolicyDocument {
  readonly kind: PolicyKind;
  readonly version: '2008-10-17' | '2012-10-17';
  readonly id: string | undefined;
  readonly statements: readonly Statement[];
  /** The estimated cost of the compiled document. */
  readonly size: CompiledSize;
}

export interface DocumentOptions {
  readonly kind: PolicyKind;
  /** Overrides the largest size of the kind; `policySizes` has AWS's limit for each use. */
  readonly sizeMax?: number;
  /** The document was accepted before: limits that were introduced later must not make it unreadable. */
  readonly isStored?: boolean;
  /** The name of the bucket that the policy is put on: its resources must be able to name something there. */
  readonly bucket?: string;
  /** The ARN of the access point that the policy is put on. */
  readonly accessPoint?: string;
}

/** AWS's limits. Bucket and access point policies count bytes; IAM counts characters that are not blank. */
export const policySizes = {
  bucket: 20 * 1024,
  accessPoint: 20 * 1024,
  managed: 6144,
  userInline: 2048,
  groupInline: 5120,
  roleInline: 10_240,
  session: 2048,
  trust: 2048,
} as const;
/** The limit in bytes with blanks, which IAM's character count leaves out. */
const bytesMax = 128 * 1024;

interface KindRules extends Omit<StatementRules, 'variables' | 'bucket' | 'accessPoint'> {
  readonly sizeMax: number;
  readonly counts: 'bytes' | 'characters';
}
const ofIdentity = {
  hasPrincipal: false,
  hasResource: true,
  mayNotPrincipal: false,
  service: undefined,
  freeSid: false,
  counts: 'characters',
} as const;
const ofResource = {
  hasPrincipal: true,
  hasResource: true,
  mayNotPrincipal: true,
  service: 's3',
  freeSid: true,
  counts: 'bytes',
} as const;
const kinds: Readonly<Record<PolicyKind, KindRules>> = {
  identity: { ...ofIdentity, sizeMax: policySizes.managed },
  session: { ...ofIdentity, sizeMax: policySizes.session },
  bucket: { ...ofResource, sizeMax: policySizes.bucket },
  'access-point': { ...ofResource, sizeMax: policySizes.accessPoint },
  trust: {
    ...ofIdentity,
    hasPrincipal: true,
    hasResource: false,
    service: 'sts',
    sizeMax: policySizes.trust,
  },
};

const elements = new Set(['Version', 'Id', 'Statement']);

const utf8 = new TextEncoder();
function checkSize(text: string, { sizeMax, counts }: Pick<KindRules, 'sizeMax' | 'counts'>): void {
  const bytes = text.length > bytesMax ? text.length : utf8.encode(text).length;
  const size = counts === 'bytes' ? bytes : text.replace(/\s+/g, '').length;
  if (size > sizeMax) throw malformed('', `is larger than ${sizeMax} ${counts}`);
  if (bytes > bytesMax) throw malformed('', `is larger than ${bytesMax} bytes`);
}

function checkSids(statements: readonly Statement[]): void {
  const seen = new Set<string>();
  for (const { sid, index } of statements) {
    if (sid === undefined) continue;
    if (seen.has(sid))
      throw malformed(`Statement[${index}].Sid`, `${quoted(sid)} is another statement's too`);
    seen.add(sid);
  }
}

/** @throws MalformedPolicy */
export function parsePolicy(text: string, options: DocumentOptions): PolicyDocument {
  const rules = kinds[options.kind];
  checkSize(text, { sizeMax: options.sizeMax ?? rules.sizeMax, counts: rules.counts });
  const document = parseJson(text);
  if (!(document instanceof Map)) throw malformed('', 'must be a JSON object');
  for (const name of document.keys())
    if (!elements.has(name)) throw malformed('', `has ${quoted(name)}, which is no element of a policy`);
  const version = document.has('Version') ? document.get('Version') : '2008-10-17';
  if (version !== '2008-10-17' && version !== '2012-10-17')
    throw malformed('Version', 'must be "2012-10-17" or "2008-10-17"');
  const id = document.get('Id');
  if (id !== undefined && typeof id !== 'string') throw malformed('Id', 'must be text');
  const input = document.get('Statement');
  if (input === undefined) throw malformed('', 'needs Statement');
  const list = Array.isArray(input) ? input : undefined;
  if (list?.length === 0) throw malformed('Statement', 'must not be empty');
  const size = sizeOfStatements(list ?? [input]);
  if (options.isStored !== true) checkCompiledSize(size);
  const statementRules = {
    ...rules,
    variables: version === '2012-10-17',
    bucket: options.bucket,
    accessPoint: options.accessPoint,
  };
  const statements = (list ?? [input]).map((each, index) => ({
    ...compileStatement(each, list === undefined ? 'Statement' : `Statement[${index}]`, statementRules),
    index,
  }));
  checkSids(statements);
  return { kind: options.kind, version, id, statements, size };
}
