/** This gateway as the upstream of other gateways: the real command, with one bucket for all worlds. */
import { upstreamBucket } from '../gateway.ts';
import { startServer, testCredentials } from '../server.ts';
import { signer, toRequest } from '../sign.ts';

export interface UpstreamEngine extends AsyncDisposable {
  /** Settings for the process that runs the suites. */
  readonly environment: Readonly<Record<string, string>>;
  readonly bucket: string;
  /** The sizes of its objects, at most 1,000. */
  sizes(): Promise<number[]>;
}

export async function startUpstreamServer(): Promise<UpstreamEngine> {
  const server = await startServer({ env: { SVC_FSYNC: 'never' } });
  const { accessKey, secretKey } = testCredentials.root;
  const sign = signer({ accessKey, secretKey, host: `127.0.0.1:${server.port}` });
  const ask = async (method: string, query = {}): Promise<string> => {
    const answer = await fetch(toRequest(sign.request({ method, path: `/${upstreamBucket}`, query })));
    const text = await answer.text();
    if (!answer.ok) throw new Error(`the upstream answered ${answer.status}: ${text}`);
    return text;
  };
  await ask('PUT');
  return {
    environment: {
      SVC_UPSTREAM_ENDPOINT: server.url,
      SVC_UPSTREAM_ACCESS_KEY: accessKey,
      SVC_UPSTREAM_SECRET_KEY: secretKey,
    },
    bucket: upstreamBucket,
    sizes: async () =>
      [...(await ask('GET', { 'list-type': '2' })).matchAll(/<Contents>.*?<\/Contents>/gs)]
        .map(([entry]) => entry)
        // The mark of the installation does not count as an extent.
        .filter((entry) => !entry.includes('installation.json<'))
        .map((entry) => Number(/<Size>(\d+)</.exec(entry)?.[1])),
    async [Symbol.asyncDispose]() {
      await server.stop();
    },
  };
}
