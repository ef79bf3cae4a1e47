/** The settings of `SVC_KEY_PROVIDER=cloud-kms`. */
import { choice, text } from '../read/kinds.ts';
import { optional } from '../read/setting.ts';
import { endpoint } from '../values/endpoint.ts';
import { filePath } from '../values/network.ts';
import { keyPattern, regionPattern } from '../values/upstreams.ts';

export const cloudKmsSettings = {
  SVC_KMS_ENDPOINT: optional(
    endpoint('The endpoint of the AWS KMS API, such as https://kms.eu-central-1.amazonaws.com.'),
  ),
  SVC_KMS_REGION: text({
    kind: 'region name',
    fallback: 'us-east-1',
    pattern: regionPattern,
    doc: 'The region that requests to the key-management service are signed for.',
  }),
  SVC_KMS_CREDENTIALS: choice({
    of: ['static', 'profile', 'imds', 'web-identity'],
    fallback: 'static',
    doc: 'Where the credentials for the AWS KMS API come from: settings, a profile of a credentials file, the metadata service of the machine, or a role that a token of a workload assumes.',
  }),
  SVC_KMS_ACCESS_KEY: optional(
    text({ kind: 'access key', pattern: keyPattern, doc: 'The access key of `SVC_KMS_CREDENTIALS=static`.' }),
  ),
  SVC_KMS_SECRET_KEY_FILE: optional(filePath('A file with the secret key of SVC_KMS_ACCESS_KEY.')),
  SVC_KMS_PROFILE: text({
    kind: 'profile name',
    fallback: 'default',
    pattern: /^[\w.-]{1,128}$/,
    doc: 'The profile of `SVC_KMS_CREDENTIALS=profile`.',
  }),
  SVC_KMS_PROFILE_FILE: optional(
    filePath('The credentials file of `SVC_KMS_CREDENTIALS=profile`; it is read again every five minutes.'),
  ),
  SVC_KMS_IMDS_ENDPOINT: {
    ...endpoint('The metadata service of `SVC_KMS_CREDENTIALS=imds`; SVC_EGRESS_ALLOW must contain it.'),
    fallback: 'http://169.254.169.254',
  },
  SVC_KMS_ROLE_ARN: optional(
    text({
      kind: 'ARN of a role',
      pattern: /^arn:[\x21-\x7e]{1,512}$/,
      doc: 'The role of `SVC_KMS_CREDENTIALS=web-identity`.',
    }),
  ),
  SVC_KMS_WEB_IDENTITY_TOKEN_FILE: optional(
    filePath('The token of `SVC_KMS_CREDENTIALS=web-identity`; it is read whenever the role is assumed.'),
  ),
  SVC_KMS_STS_ENDPOINT: optional(
    endpoint(
      'The STS endpoint of `SVC_KMS_CREDENTIALS=web-identity`, such as https://sts.eu-central-1.amazonaws.com.',
    ),
  ),
  SVC_KMS_CA_FILE: optional(
    filePath(
      'PEM certificates that are trusted for SVC_KMS_ENDPOINT and SVC_KMS_STS_ENDPOINT, in place of the built-in ones.',
    ),
  ),
} as const;
