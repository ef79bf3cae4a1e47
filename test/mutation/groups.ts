/** The source files to mutate, each with the tests that assert its behaviour, so that a run stays short. */

export interface Group {
  readonly mutate: readonly string[];
  readonly tests: readonly string[];
  readonly excluded?: readonly string[];
}

export const groups: Readonly<Record<string, Group>> = {
  domain: {
    mutate: [
      'src/domain/configurations/lifecycle-rules.ts',
      'src/domain/configurations/rule-filter.ts',
      'src/domain/objects/conditions.ts',
    ],
    tests: ['test/unit/lifecycle-rules.test.ts', 'test/unit/conditions.test.ts'],
  },
  commit: {
    mutate: ['src/domain/objects/versions.ts'],
    tests: ['test/handlers/{delete-objects,last-writer,object-lock,put-races,versioning}.test.ts'],
  },
  cors: {
    mutate: ['src/handlers/common/cross-origin.ts'],
    tests: ['test/unit/cors.test.ts', 'test/handlers/cors.test.ts'],
  },
  protocol: {
    mutate: ['src/protocol/address.ts', 'src/protocol/formats/iso-time.ts'],
    tests: [
      'test/unit/protocol/peer.test.ts',
      'test/unit/iso-time.test.ts',
      'test/unit/auth/*.test.ts',
      'test/attacks/signature-{canonical,presigned}.test.ts',
      'test/handlers/{access-points,addressing,areas,hostile-names,website}.test.ts',
    ],
  },
  auth: {
    mutate: ['src/auth/policy/patterns.ts', 'src/auth/policy/evaluate.ts'],
    tests: ['test/unit/policy/patterns.test.ts', 'test/unit/policy/evaluate.test.ts'],
  },
  signature: {
    mutate: ['src/auth/presigned.ts', 'src/signing/signing-key.ts'],
    tests: [
      'test/unit/auth/*.test.ts',
      'test/attacks/signature-{presigned,canonical}.test.ts',
      'test/handlers/hoisted-headers.test.ts',
    ],
  },
};
