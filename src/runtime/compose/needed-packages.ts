/**
 * What the settings need and this installation lacks, mostly optional packages, so that a start without them is refused
 * with what to do.
 */
import { createRequire } from 'node:module';
import { explainNoBinding } from '../../backends/sinks/sink-options.ts';
import { installCommand, isMissing, type OptionalPackage } from '../../base/optional-packages.ts';
import { dataBackends } from '../../config/data.ts';
import { keyProviders } from '../../config/keys.ts';
import { metadataBackends } from '../../config/metadata.ts';
import type { Config } from '../../config.ts';
import { sinkKinds } from '../../ports/event-sink.ts';

/** Written out, because a bundle has what an import names. */
const imports: Readonly<Record<OptionalPackage, () => Promise<unknown>>> = {
  '@grpc/grpc-js': () => import('@grpc/grpc-js'),
  '@nats-io/jetstream': () => import('@nats-io/jetstream'),
  '@nats-io/transport-node': () => import('@nats-io/transport-node'),
  '@platformatic/kafka': () => import('@platformatic/kafka'),
  'cassandra-driver': () => import('cassandra-driver'),
  ioredis: () => import('ioredis'),
  koffi: () => import('koffi'),
  mqtt: () => import('mqtt'),
  postgres: () => import('postgres'),
  protobufjs: () => import('protobufjs'),
  'rabbitmq-client': () => import('rabbitmq-client'),
};

interface Need {
  /** The setting, as it was given. */
  readonly by: string;
  readonly packages: readonly OptionalPackage[];
}

type Asked = Pick<
  Config,
  'SVC_META_BACKEND' | 'SVC_DATA_BACKEND' | 'SVC_KEY_PROVIDER' | 'SVC_NOTIFY_TARGETS'
>;

function listNeeds(config: Asked): readonly Need[] {
  const needs: Need[] = [
    {
      by: `SVC_META_BACKEND=${config.SVC_META_BACKEND}`,
      packages: metadataBackends[config.SVC_META_BACKEND].packages ?? [],
    },
    {
      by: `SVC_DATA_BACKEND=${config.SVC_DATA_BACKEND}`,
      packages: dataBackends[config.SVC_DATA_BACKEND].packages ?? [],
    },
    ...config.SVC_NOTIFY_TARGETS.map(({ id, type }) => ({
      by: `the target ${id} of SVC_NOTIFY_TARGETS`,
      packages: sinkKinds[type].packages ?? [],
    })),
  ];
  const { SVC_KEY_PROVIDER: provider } = config;
  if (provider !== undefined)
    needs.push({ by: `SVC_KEY_PROVIDER=${provider}`, packages: keyProviders[provider].packages ?? [] });
  return needs;
}

const { resolve } = createRequire(import.meta.url);

/** A package is looked up before it is loaded: some take 100 ms and 20 MB, and are used only when the first event is delivered. */
async function isInstalled(name: OptionalPackage): Promise<boolean> {
  try {
    resolve(name);
    return true;
  } catch (cause) {
    // Some packages have no entry for `require`, which they say only where they are.
    if (!isMissing(cause)) return true;
  }
  try {
    await imports[name]();
    return true;
  } catch {
    return false;
  }
}

/**
 * @returns a sentence for each setting that this runtime cannot serve; where a package is not installed, with the
 * command that installs it
 */
export async function lookForPackages(config: Asked): Promise<readonly string[]> {
  const faults = config.SVC_NOTIFY_TARGETS.filter(({ type }) => type === 'queue').map(explainNoBinding);
  for (const { by, packages } of listNeeds(config)) {
    const present = await Promise.all(packages.map(isInstalled));
    const missing = packages.filter((_, n) => present[n] === false);
    if (missing.length === 0) continue;
    const named =
      missing.length === 1 ? `the package ${missing[0]}` : `the packages ${missing.join(' and ')}`;
    faults.push(`${by} needs ${named}: run \`${installCommand(missing)}\` where sluice is installed`);
  }
  return faults;
}
