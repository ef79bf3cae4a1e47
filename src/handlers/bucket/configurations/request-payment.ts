/** GetBucketRequestPayment, PutBucketRequestPayment; what they mean for requests is in `auth/authorization/requester-pays.ts`. */
import { requestPayment } from '../../../domain/configurations/families.ts';
import { requestPaymentConfiguration } from '../../../protocol/schemas/bucket/request-payment.ts';
import { document } from '../../common/document.ts';

const configuration = document({
  family: requestPayment,
  root: 'RequestPaymentConfiguration',
  schema: requestPaymentConfiguration,
  unset: { Payer: 'BucketOwner' },
});

export const requestPayer = configuration.configuration;
export const GetBucketRequestPayment = configuration.get;
export const PutBucketRequestPayment = configuration.put;
