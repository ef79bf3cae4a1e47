/** Which gateway `sluice admin` speaks to, and as whom: options, then variables, then a profile of `~/.config/sluice/profiles.json`. */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { UsageFault } from './commands.ts';

export interface Profile {
  readonly endpoint: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const fields = ['endpoint', 'accessKey', 'secretKey', 'region'] as const;
const example = '{"default":{"endpoint":"http://localhost:9000","accessKey":"…","secretKey":"…"}}';

/** @throws UsageFault that says what is missing, and where it can be given */
export function findProfile(common: Readonly<Record<string, string>>, env: Environment): Profile {
  const name = common['--profile'] ?? env['SLUICE_PROFILE'];
  const file = join(
    env['XDG_CONFIG_HOME'] ?? join(env['HOME'] ?? homedir(), '.config'),
    'sluice',
    'profiles.json',
  );
  const stored = readStored(file, name);
  const region = env['SLUICE_REGION'] ?? stored.region;
  const found = {
    endpoint: common['--endpoint'] ?? env['SLUICE_ENDPOINT'] ?? stored.endpoint,
    accessKey: env['SLUICE_ACCESS_KEY'] ?? stored.accessKey,
    secretKey: env['SLUICE_SECRET_KEY'] ?? stored.secretKey,
  };
  const { endpoint, accessKey, secretKey } = found;
  if (endpoint === undefined || accessKey === undefined || secretKey === undefined)
    throw new UsageFault(
      `the endpoint and keys are not known: set SLUICE_ENDPOINT, SLUICE_ACCESS_KEY and SLUICE_SECRET_KEY, or write ${file} (mode 0600): ${example}`,
    );
  if (!URL.canParse(endpoint) || !/^https?:/.test(endpoint))
    throw new UsageFault(`the endpoint ${endpoint} is not an address such as http://localhost:9000`);
  return { endpoint, accessKey, secretKey, ...(region === undefined ? {} : { region }) };
}

/** Environment variables alone are enough, so a missing file is no fault unless a profile was named. */
function readStored(file: string, name: string | undefined): Partial<Profile> {
  const text = readPrivate(file);
  if (text === undefined) {
    if (name === undefined) return {};
    throw new UsageFault(`there is no ${file}, so no profile ${name}`);
  }
  const profiles = parseProfiles(file, text);
  const profile = Object.hasOwn(profiles, name ?? 'default') ? profiles[name ?? 'default'] : undefined;
  if (profile === undefined && name !== undefined)
    throw new UsageFault(`${file} has no profile ${name}; it has ${Object.keys(profiles).join(', ')}`);
  const input =
    typeof profile === 'object' && profile !== null ? (profile as Readonly<Record<string, unknown>>) : {};
  return Object.fromEntries(
    fields.flatMap((each) => (typeof input[each] === 'string' ? [[each, input[each]]] : [])),
  );
}

function parseProfiles(file: string, text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed };
  } catch {
    // Answered below: the parser's own message would quote the file, which has secrets.
  }
  throw new UsageFault(`${file} is not a JSON object such as ${example}`);
}

/** Other users must not be able to read the secret keys. */
function readPrivate(file: string): string | undefined {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  if (process.platform !== 'win32' && (found.mode & 0o077) !== 0)
    throw new UsageFault(`${file} has secret keys and can be read by other users: chmod 600 ${file}`);
  return readFileSync(file, 'utf8');
}
