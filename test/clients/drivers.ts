/** Setup of the suites of the AWS clients: a server for each client with its default settings, and functions that send requests. */
import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { join } from 'node:path';
import { S3Client } from '@aws-sdk/client-s3';
import { installed } from './installed.ts';
import { awsKeys, type Ran, region, type Settings, startWorld, type World } from './world.ts';

type Json = Record<string, unknown>;
/** Sends one request and returns its JSON response. */
export type Api = (operation: string, ...args: string[]) => Promise<Json>;

export interface ServerOptions {
  readonly settings: Settings;
  /** Path of the certificate that the client trusts, for a server with TLS. */
  readonly caFile?: string;
}

const trust = (caFile: string | undefined): Record<string, string> =>
  caFile === undefined ? {} : { AWS_CA_BUNDLE: caFile };

export interface AwsCli {
  readonly world: World;
  aws(...args: string[]): Promise<string>;
  attempt(...args: string[]): Promise<Ran>;
  /** `s3api` for one bucket. */
  apiOf(bucket: string): Api;
}

export async function openAwsCli(server?: ServerOptions): Promise<AwsCli> {
  const program = installed('aws');
  const world = await startWorld(
    (place) => ({ AWS_ENDPOINT_URL: place.url, ...awsKeys(place), ...trust(server?.caFile) }),
    server?.settings,
  );
  const aws = (...args: string[]) => world.run(program, ...args);
  return {
    world,
    aws,
    attempt: (...args) => world.attempt(program, ...args),
    apiOf:
      (bucket) =>
      async (operation, ...args) => {
        const text = await aws('s3api', operation, '--bucket', bucket, ...args);
        return text.trim() === '' ? {} : (JSON.parse(text) as Json);
      },
  };
}

export interface Sdk {
  readonly world: World;
  readonly client: S3Client;
  stop(): Promise<void>;
}

export async function openSdk(server?: ServerOptions): Promise<Sdk> {
  const world = await startWorld(() => ({}), server?.settings);
  const { accessKey, secretKey } = world.user;
  const client = new S3Client({
    endpoint: world.url,
    region,
    credentials: { accessKeyId: accessKey, secretAccessKey: secretKey },
    ...(server?.caFile === undefined
      ? {}
      : { requestHandler: { httpsAgent: new Agent({ keepAlive: true, ca: readFileSync(server.caFile) }) } }),
  });
  const stop = async (): Promise<void> => {
    client.destroy();
    await world.stop();
  };
  return { world, client, stop };
}

export interface Boto {
  readonly world: World;
  /** Runs a function of the script in a separate process, and returns its result. */
  step(name: string, ...args: string[]): Promise<unknown>;
}

/** @param script a Python file in this folder */
export async function openBoto(script: string, server?: ServerOptions): Promise<Boto> {
  const python = installed('python');
  const world = await startWorld(
    (place) => ({ ENDPOINT: place.url, ...awsKeys(place), ...trust(server?.caFile) }),
    server?.settings,
  );
  const path = join(import.meta.dirname, script);
  return { world, step: async (name, ...args) => JSON.parse(await world.run(python, path, name, ...args)) };
}
