/** The body of the operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketRequestPayment.html */
import { element, type Infer, oneOf } from '../../formats/codec.ts';

/** Root `RequestPaymentConfiguration`. */
export const requestPaymentConfiguration = element({ Payer: oneOf('Requester', 'BucketOwner') });
export type RequestPaymentConfiguration = Infer<typeof requestPaymentConfiguration>;
