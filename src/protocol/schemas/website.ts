/** The body of the website operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketWebsite.html */
import {
  atMostOne,
  checked,
  element,
  type Infer,
  limitedByHandler,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../codec.ts';

const protocol = oneOf('http', 'https');

const redirect = checked(
  element({
    Protocol: optional(protocol),
    HostName: optional(token),
    ReplaceKeyPrefixWith: optional(text),
    ReplaceKeyWith: optional(text),
    HttpRedirectCode: optional(token),
  }),
  atMostOne('ReplaceKeyPrefixWith', 'ReplaceKeyWith'),
);

const routingRule = element({
  Condition: optional(
    element({ KeyPrefixEquals: optional(text), HttpErrorCodeReturnedEquals: optional(token) }),
  ),
  Redirect: redirect,
});
export type RoutingRule = Infer<typeof routingRule>;

/** Root `WebsiteConfiguration`. */
export const websiteConfiguration = element({
  RedirectAllRequestsTo: optional(element({ HostName: token, Protocol: optional(protocol) })),
  IndexDocument: optional(element({ Suffix: text })),
  ErrorDocument: optional(element({ Key: text })),
  RoutingRules: optional(many(routingRule, { name: 'RoutingRule', ...limitedByHandler })),
});
export type WebsiteConfiguration = Infer<typeof websiteConfiguration>;
