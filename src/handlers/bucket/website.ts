/** GetBucketWebsite, PutBucketWebsite, DeleteBucketWebsite. */

import { fail } from '../../base/errors.ts';
import { bucketWebsite, type RoutingRule, type Website } from '../../domain/configurations/families.ts';
import { websiteConfiguration } from '../../protocol/schemas/bucket.ts';
import { type Checks, checkEach } from '../common/checks.ts';
import { document } from '../common/document.ts';

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

async function checkSite(checks: Checks, site: Website): Promise<void> {
  const { RedirectAllRequestsTo, IndexDocument, ErrorDocument, RoutingRules = [] } = site;
  if (RedirectAllRequestsTo !== undefined) {
    await checks.at({ path: '', right: 'RedirectAllRequestsTo alone' }, () => {
      if (Object.keys(site).length > 1)
        throw fail(
          'InvalidRequest',
          'RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.',
        );
    });
    await checks.at({ path: 'RedirectAllRequestsTo' }, () => checkTarget(RedirectAllRequestsTo));
    return;
  }
  await checks.at({ path: 'IndexDocument', right: 'a Suffix such as index.html, without a slash' }, () =>
    checkIndex(IndexDocument),
  );
  await checks.at({ path: 'ErrorDocument.Key', right: 'a key' }, () => {
    if (ErrorDocument?.Key === '') throw fail('InvalidArgument', 'The ErrorDocument Key is not well formed');
  });
  await checks.at({ path: 'RoutingRules', right: `at most ${rulesMax} rules` }, () => {
    if (RoutingRules.length > rulesMax)
      throw fail(
        'InvalidRequest',
        `${RoutingRules.length} routing rules provided, the number of routing rules in a website configuration is limited to ${rulesMax}.`,
      );
  });
  await checkEach(checks, { path: 'RoutingRules' }, { members: RoutingRules, check: checkRule });
}

function checkIndex(IndexDocument: Website['IndexDocument']): void {
  if (IndexDocument === undefined)
    throw fail(
      'InvalidArgument',
      'A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty',
    );
  if (IndexDocument.Suffix === '' || IndexDocument.Suffix.includes('/'))
    throw fail('InvalidArgument', 'The IndexDocument Suffix is not well formed');
}

const websiteDocument = document({
  family: bucketWebsite,
  schema: websiteConfiguration,
  unset: 'NoSuchWebsiteConfiguration',
  validate: async (_ctx, { checks }, value) => {
    await checkSite(checks, value);
    return value;
  },
});

export const website = websiteDocument.configuration;
export const GetBucketWebsite = websiteDocument.get;
export const PutBucketWebsite = websiteDocument.put;
export const DeleteBucketWebsite = websiteDocument.remove;
