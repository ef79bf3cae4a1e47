/** Settings, policies and requests shared by the AWS clients' suites on ACLs, policies and access points. */
import type { Place, Settings } from './world.ts';

/** The endpoint's host name, which is the parent domain of the access points' hosts. */
export const domain = 's3.test';
export const accessSettings: Settings = { SVC_DOMAIN: domain };

export const everyone = 'http://acs.amazonaws.com/groups/global/AllUsers';

export const policyOf = (bucket: string, principal: unknown = '*'): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: principal, Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` },
    ],
  });

/** Settings of a client that calls the server by its name, through the server as its proxy. */
export const byName = ({ url }: Pick<Place, 'url'>): Record<string, string> => ({
  AWS_ENDPOINT_URL: `http://${domain}:${new URL(url).port}`,
  HTTP_PROXY: url,
  NO_PROXY: '',
});

/** Sends an anonymous GET and returns the status. */
export const anonymously = async (url: string, path: string): Promise<number> =>
  (await fetch(url + path)).status;
