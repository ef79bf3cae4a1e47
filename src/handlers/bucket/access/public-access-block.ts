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

const documentOf = document({
  family: publicAccessBlock,
  root: 'PublicAccessBlockConfiguration',
  schema: publicAccessBlockConfiguration,
  unset: 'NoSuchPublicAccessBlockConfiguration',
  // All four are shown, also those that were not sent.
  validate: (_ctx, _call, value) => ({ ...nothingBlocked, ...value }),
});

export const GetPublicAccessBlock = documentOf.get;
export const PutPublicAccessBlock = documentOf.put;
export const DeletePublicAccessBlock = documentOf.remove;
