/** The families of bucket configurations that the operator API reads and writes. */

import { nearest } from '../../../config/read/nearest.ts';
import { fail } from '../../../errors/refusal.ts';
import {
  type ConfigurationFamily,
  configurationFamilies,
} from '../../../protocol/schemas/bucket/families.ts';
import { acl } from '../../bucket/access/acl.ts';
import { ownership } from '../../bucket/access/ownership-controls.ts';
import { policy } from '../../bucket/access/policy.ts';
import { accessBlock } from '../../bucket/access/public-access-block.ts';
import { cors } from '../../bucket/configurations/cors.ts';
import { encryption } from '../../bucket/configurations/encryption.ts';
import { logging } from '../../bucket/configurations/logging.ts';
import { objectLocking } from '../../bucket/configurations/object-lock.ts';
import { requestPayer } from '../../bucket/configurations/request-payment.ts';
import { bucketTags } from '../../bucket/configurations/tagging.ts';
import { versioning } from '../../bucket/configurations/versioning.ts';
import { website } from '../../bucket/configurations/website.ts';
import { inventory } from '../../bucket/rules/inventory.ts';
import { lifecycle } from '../../bucket/rules/lifecycle.ts';
import { notification } from '../../bucket/rules/notification.ts';
import { replication } from '../../bucket/rules/replication.ts';
import type { Configuration } from '../../common/configuration.ts';

export const configurations: { readonly [F in ConfigurationFamily]: Configuration<never> } = {
  acl,
  cors,
  encryption,
  inventory,
  lifecycle,
  logging,
  notification,
  'object-lock': objectLocking,
  'ownership-controls': ownership,
  policy,
  'public-access-block': accessBlock,
  replication,
  'request-payment': requestPayer,
  tagging: bucketTags,
  versioning,
  website,
};

/** @throws InvalidArgument naming the families */
export function readFamily(name: string): ConfigurationFamily {
  const family = configurationFamilies.find((each) => each === name);
  if (family !== undefined) return family;
  const close = nearest(name, configurationFamilies);
  throw fail('InvalidArgument', {
    message: `There is no configuration "${name.slice(0, 64)}"; ${close === undefined ? `there are ${configurationFamilies.join(', ')}` : `did you mean ${close}?`}`,
    field: 'family',
  });
}
