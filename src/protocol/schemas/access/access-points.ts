/** Bodies of the operations on access points: https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_CreateAccessPoint.html */
import { date, element, type Infer, many, optional, text, token } from '../../formats/codec.ts';
import { policyStatus } from './policy-status.ts';
import { publicAccessBlockConfiguration } from './public-access-block.ts';

/** Root `CreateAccessPointRequest`. A VPC is read, so that it can be refused instead of being dropped. */
export const createAccessPointRequest = element({
  Bucket: token,
  VpcConfiguration: optional(element({ VpcId: optional(token) })),
  PublicAccessBlockConfiguration: optional(publicAccessBlockConfiguration),
  BucketAccountId: optional(token),
});

/** Root `PutAccessPointPolicyRequest`. */
export const putAccessPointPolicyRequest = element({ Policy: text });

export const createAccessPointResult = element({ AccessPointArn: token, Alias: token });

export const getAccessPointResult = element({
  Name: token,
  Bucket: token,
  NetworkOrigin: token,
  PublicAccessBlockConfiguration: publicAccessBlockConfiguration,
  CreationDate: date,
  Alias: token,
  AccessPointArn: token,
  BucketAccountId: token,
});
export type GetAccessPointResult = Infer<typeof getAccessPointResult>;

export const accessPointsMax = 1000;
export const listAccessPointsResult = element({
  AccessPointList: many(
    element({
      Name: token,
      NetworkOrigin: token,
      Bucket: token,
      AccessPointArn: token,
      Alias: token,
      BucketAccountId: token,
    }),
    { name: 'AccessPoint', max: accessPointsMax },
  ),
  NextToken: optional(text),
});

export const getAccessPointPolicyResult = element({ Policy: text });
export const getAccessPointPolicyStatusResult = element({ PolicyStatus: policyStatus });
