/** GetBucketWebsite, PutBucketWebsite, DeleteBucketWebsite. */
import { bucketWebsite, type RoutingRule, type Website } from '../../../domain/configurations/families.ts';
import { fail } from '../../../errors/refusal.ts';
import { websiteConfiguration } from '../../../protocol/schemas/bucket/website.ts';
import { document } from '../../common/document.ts';

const rulesMax = 50;
/** A host name with an optional port, because the value is copied into a `Location` header. */
const hostName = /^[A-Za-z0-9._-]{1,253}(?::\d{1,5})?$/;

function checkTarget({ HostName, Protocol }: { HostName?: string; Protocol?: string }): void {
  if (Protocol !== undefined && Protocol !== 'http' && Protocol !== 'https')
    throw fail(
      'InvalidRequest',
      'Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically.',
    );
  if (HostName !== undefined && !hostName.test(HostName))
    throw fail('InvalidRequest', `The provided host name (${HostName}) is not valid.`);
}

function checkRule({ Condition, Redirect }: RoutingRule): void {
  checkTarget(Redirect);
  if (Object.keys(Redirect).length === 0)
    throw fail(
      'InvalidRequest',
      'At least one of HostName, Protocol, ReplaceKeyPrefixWith, ReplaceKeyWith and HttpRedirectCode must be in a Redirect.',
    );
  if (Redirect.ReplaceKeyWith !== undefined && Redirect.ReplaceKeyPrefixWith !== undefined)
    throw fail('InvalidRequest', 'You can only define ReplaceKeyPrefix or ReplaceKey but not both.');
  const { HttpRedirectCode } = Redirect;
  if (HttpRedirectCode !== undefined && !/^3(?!00)\d\d$/.test(HttpRedirectCode))
    throw fail(
      'InvalidRequest',
      `The provided HTTP redirect code (${HttpRedirectCode}) is not valid. Valid codes are 3XX except 300.`,
    );
  if (Condition === undefined) return;
  if (Object.keys(Condition).length === 0)
    throw fail(
      'InvalidRequest',
      "Condition cannot be empty. To redirect all requests without a condition, the condition element shouldn't be present.",
    );
  const { HttpErrorCodeReturnedEquals: code } = Condition;
  if (code !== undefined && !/^[45]\d\d$/.test(code))
    throw fail(
      'InvalidRequest',
      `The provided HTTP error code (${code}) is not valid. Valid codes are 4XX or 5XX.`,
    );
}

function checkSite({ RedirectAllRequestsTo, IndexDocument, ErrorDocument, RoutingRules }: Website) {
  if (RedirectAllRequestsTo !== undefined) {
    if (IndexDocument !== undefined || ErrorDocument !== undefined || RoutingRules !== undefined)
      throw fail(
        'InvalidRequest',
        'RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.',
      );
    return checkTarget(RedirectAllRequestsTo);
  }
  if (IndexDocument === undefined)
    throw fail(
      'InvalidArgument',
      'A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty',
    );
  if (IndexDocument.Suffix === '' || IndexDocument.Suffix.includes('/'))
    throw fail('InvalidArgument', 'The IndexDocument Suffix is not well formed');
  if (ErrorDocument?.Key === '') throw fail('InvalidArgument', 'The ErrorDocument Key is not well formed');
  const rules = RoutingRules ?? [];
  if (rules.length > rulesMax)
    throw fail(
      'InvalidRequest',
      `${rules.length} routing rules provided, the number of routing rules in a website configuration is limited to ${rulesMax}.`,
    );
  for (const rule of rules) checkRule(rule);
}

const websiteDocument = document({
  family: bucketWebsite,
  root: 'WebsiteConfiguration',
  schema: websiteConfiguration,
  unset: 'NoSuchWebsiteConfiguration',
  validate: (_ctx, _call, value) => {
    checkSite(value);
    return value;
  },
});

export const GetBucketWebsite = websiteDocument.get;
export const PutBucketWebsite = websiteDocument.put;
export const DeleteBucketWebsite = websiteDocument.remove;
