/** Refuses an unsupported Node in one sentence, when it is imported before modules that need a newer one. */

/** As in `engines` of package.json. */
const oldest = '22.18';

interface NodeProcess {
  readonly versions?: { readonly node?: string };
}

/** Absent outside of Node. Bun and Deno have the version of Node that they are compatible with. */
const version = (globalThis as { process?: NodeProcess }).process?.versions?.node;

function isOlder(version: string, limit: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [limitMajor = 0, limitMinor = 0] = limit.split('.').map(Number);
  return major < limitMajor || (major === limitMajor && minor < limitMinor);
}

if (version !== undefined && isOlder(version, oldest)) {
  const error = new Error(`sluice needs Node ${oldest} or later; this is Node ${version}`);
  // Printed in place of the message, and the place where this is thrown does not help.
  error.stack = error.message;
  throw error;
}
