/** GetBucketRequestPayment, PutBucketRequestPayment: kept and shown; this service bills nobody by request. */
import { family } from '../../domain/documents.ts';
import {
  type RequestPaymentConfiguration,
  requestPaymentConfiguration,
} from '../../protocol/schemas/request-payment.ts';
import { document } from '../document.ts';

const documentOf = document({
  family: family<RequestPaymentConfiguration>('request-payment'),
  root: 'RequestPaymentConfiguration',
  schema: requestPaymentConfiguration,
  unset: { Payer: 'BucketOwner' },
});

export const GetBucketRequestPayment = documentOf.get;
export const PutBucketRequestPayment = documentOf.put;
