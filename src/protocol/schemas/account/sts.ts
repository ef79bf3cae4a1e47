/** The replies of STS: https://docs.aws.amazon.com/STS/latest/APIReference/API_Types.html */
import { date, element, int, optional, token } from '../../formats/codec.ts';

export const credentials = element({
  AccessKeyId: token,
  SecretAccessKey: token,
  SessionToken: token,
  Expiration: date,
});

export const assumeRoleResult = element({
  AssumedRoleUser: element({ AssumedRoleId: token, Arn: token }),
  Credentials: credentials,
  PackedPolicySize: optional(int()),
});
