/** The body of the CORS operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketCors.html */
import {
  element,
  type Infer,
  int,
  limitedByHandler,
  many,
  optional,
  text,
  token,
} from '../../formats/codec.ts';

const corsRule = element({
  ID: optional(text),
  AllowedHeader: many(token, limitedByHandler),
  AllowedMethod: many(token, { ...limitedByHandler, min: 1 }),
  AllowedOrigin: many(token, { ...limitedByHandler, min: 1 }),
  ExposeHeader: many(token, limitedByHandler),
  MaxAgeSeconds: optional(int({ min: 0, max: 2 ** 31 - 1 })),
});
export type CorsRule = Infer<typeof corsRule>;

/** Root `CORSConfiguration`. */
export const corsConfiguration = element({ CORSRule: many(corsRule, { ...limitedByHandler, min: 1 }) });
export type CorsConfiguration = Infer<typeof corsConfiguration>;
