/** The installation that the processes of a node serve: the first one found it, and those that are started later must find the same. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { StartRefusal } from './start-refusal.ts';

const variable = 'SLUICE_INSTALLATION';

/** For the environment of a process that the primary starts. */
export const expecting = (installation: string | undefined): Readonly<Record<string, string>> =>
  installation === undefined ? {} : { [variable]: installation };

export const expectedInstallation = (): string | undefined => process.env[variable];

const cure = 'was it moved, or is it no longer mounted? Stop the gateway, bring it back, and start again';

/** Before anything is opened, which would make new files. @throws StartRefusal */
export function assertStillThere({ SVC_META_BACKEND, SVC_DATA_DIR }: Config): void {
  const expected = expectedInstallation();
  if (expected === undefined || SVC_META_BACKEND !== 'embedded' || SVC_DATA_DIR === undefined) return;
  const path = join(SVC_DATA_DIR, 'metadata', 'data.mdb');
  if (!existsSync(path))
    throw new StartRefusal(`${path} is gone while installation ${expected} is served; ${cure}`, 2);
}

/** @throws StartRefusal */
export function assertExpected(installation: string | undefined): void {
  const expected = expectedInstallation();
  if (expected !== undefined && installation !== undefined && installation !== expected)
    throw new StartRefusal(
      `the metadata is of installation ${installation}, and this node serves installation ${expected}; ${cure}`,
      2,
    );
}
