/**
 * Client libraries of engines and of targets of events: optional peer dependencies of the package, loaded where the
 * settings need them. The image, the Debian package and a checkout have all of them.
 */

/** The versions of `peerDependencies` in package.json. */
const versions = {
  '@grpc/grpc-js': '^1.14.7',
  '@nats-io/jetstream': '^3.4.0',
  '@nats-io/transport-node': '^3.4.0',
  '@platformatic/kafka': '^2.12.1',
  'cassandra-driver': '^4.10.0',
  ioredis: '^6.0.0',
  koffi: '^3.3.4',
  mqtt: '^5.16.0',
  postgres: '^3.4.9',
  protobufjs: '^8.8.1',
  'rabbitmq-client': '^5.0.8',
} as const;
export type OptionalPackage = keyof typeof versions;
export const optionalPackages: Readonly<Record<OptionalPackage, string>> = versions;

export const installCommand = (names: readonly OptionalPackage[]): string =>
  `npm install ${names.map((name) => `${name}@${versions[name]}`).join(' ')}`;

/** @throws Error that names the packages and the command, where one of them is not installed */
export async function loadOptional<T>(names: readonly OptionalPackage[], load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    throw new Error(
      `its client library is missing: run \`${installCommand(names)}\` where sluice is installed`,
      {
        cause,
      },
    );
  }
}

/** Whether an import failed because there is no such package. */
export function isMissing(cause: unknown): boolean {
  const { code } = cause as { readonly code?: string };
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
}
