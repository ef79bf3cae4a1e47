/** GetPublicAccessBlock, PutPublicAccessBlock, DeletePublicAccessBlock. */
import { publicAccessBlock } from '../../../domain/configurations/families.ts';
import { publicAccessBlockConfiguration } from '../../../protocol/schemas/access/public-access-block.ts';
import { document } from '../../common/document.ts';

const nothingBlocked = {
  BlockPublicAcls: false,
  IgnorePublicAcls: false,
  BlockPublicPolicy: false,
  RestrictPublicBuckets: false,
};

const configuration = document({
  family: publicAccessBlock,
  root: 'PublicAccessBlockConfiguration',
  schema: publicAccessBlockConfiguration,
  unset: 'NoSuchPublicAccessBlockConfiguration',
  // All four are shown, also those that were not sent.
  validate: (_ctx, _call, value) => ({ ...nothingBlocked, ...value }),
});

export const accessBlock = configuration.configuration;
export const GetPublicAccessBlock = configuration.get;
export const PutPublicAccessBlock = configuration.put;
export const DeletePublicAccessBlock = configuration.remove;
