/** The static credential store: access keys from settings or a file (spec "Authentication" 2.2). */
import type { Credential, Credentials } from '../ports/credentials.ts';

/** Records are validated where settings are read; of two with the same access key the first one counts. */
export function staticCredentials(records: readonly Credential[]): Credentials {
  const byKey = new Map<string, Credential>();
  for (const record of records) if (!byKey.has(record.accessKey)) byKey.set(record.accessKey, record);
  return { find: async (accessKey) => byKey.get(accessKey) };
}
