/** The body of the website operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketWebsite.html */
import { element, type Infer, limitedByHandler, many, optional, text, token } from '../../formats/codec.ts';

const redirect = element({
  Protocol: optional(token),
  HostName: optional(token),
  ReplaceKeyPrefixWith: optional(text),
  ReplaceKeyWith: optional(text),
  HttpRedirectCode: optional(token),
});

const routingRule = element({
  Condition: optional(
    element({ KeyPrefixEquals: optional(text), HttpErrorCodeReturnedEquals: optional(token) }),
  ),
  Redirect: redirect,
});
export type RoutingRule = Infer<typeof routingRule>;

/** Root `WebsiteConfiguration`. The handler checks the rules between its elements, because each has an error of its own. */
export const websiteConfiguration = element({
  RedirectAllRequestsTo: optional(element({ HostName: token, Protocol: optional(token) })),
  IndexDocument: optional(element({ Suffix: text })),
  ErrorDocument: optional(element({ Key: text })),
  RoutingRules: optional(many(routingRule, { name: 'RoutingRule', ...limitedByHandler })),
});
export type WebsiteConfiguration = Infer<typeof websiteConfiguration>;
