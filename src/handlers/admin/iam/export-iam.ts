/** Exports an account: its records in pages, and on request the secrets of its keys. */

import { fail } from '../../../base/errors.ts';
import type { Context } from '../../../context.ts';
import { findKey, openAccessKey } from '../../../domain/iam/access-keys.ts';
import { listEntities } from '../../../domain/iam/entities.ts';
import { transferredMax } from '../../../protocol/operations/admin/iam-transfer.ts';
import { rootArn } from '../../../protocol/request/arns.ts';
import { type AdminHandler, findAccount, jsonReply } from '../call.ts';
import { entityKinds, entityRecord, type IamRecord, kindsInOrder, readRecord } from './records.ts';

/** Where the next page begins: a kind, and the last name of it that was read. */
interface Position {
  readonly kind: (typeof kindsInOrder)[number];
  readonly after?: string | undefined;
}

function readPosition(text: string | undefined): Position {
  if (text === undefined) return { kind: 'account' };
  const [name = '', after = ''] = text.split(/:(.*)/s);
  const kind = kindsInOrder.find((each) => each === name);
  if (kind === undefined)
    throw fail('InvalidArgument', { message: '"after" is no `next` of a page.', field: 'after' });
  return after === '' ? { kind } : { kind, after };
}

const nextKind = (kind: Position['kind']): Position | undefined => {
  const next = kindsInOrder[kindsInOrder.indexOf(kind) + 1];
  return next && { kind: next };
};

async function readPage(
  ctx: Context,
  account: string,
  { at, limit }: { readonly at: Position; readonly limit: number },
): Promise<{ readonly records: readonly IamRecord[]; readonly next: Position | undefined }> {
  const records: IamRecord[] = [];
  let position: Position | undefined = at;
  while (position !== undefined && records.length < limit) {
    const { kind, after }: Position = position;
    if (kind === 'account') {
      const record = await readRecord(ctx, account, { kind, name: account });
      if (record !== undefined) records.push(record);
      position = nextKind(kind);
      continue;
    }
    const max = limit - records.length;
    const page = await listEntities(ctx, account, { kind: entityKinds[kind], pathPrefix: '/', after, max });
    for (const found of page.items) records.push(await entityRecord(ctx, account, { kind, found }));
    position = page.next === undefined ? nextKind(kind) : { kind, after: page.next };
  }
  return { records, next: position };
}

/** Maps as objects. */
const toJson = ({ tags, inlinePolicies, ...record }: IamRecord) => ({
  ...record,
  ...(tags === undefined ? {} : { tags: Object.fromEntries(tags) }),
  ...(inlinePolicies === undefined ? {} : { inlinePolicies: Object.fromEntries(inlinePolicies) }),
});

export const ExportIam: AdminHandler<'ExportIam'> = async (ctx, { params, query }) => {
  const { owner } = await findAccount(ctx, params);
  const limit = Math.min(query.limit ?? transferredMax, transferredMax);
  const { records, next } = await readPage(ctx, owner, { at: readPosition(query.after), limit });
  return jsonReply({
    rows: records.map(toJson),
    ...(next === undefined ? {} : { next: `${next.kind}:${next.after ?? ''}` }),
  });
};

export const ExportIamSecrets: AdminHandler<'ExportIamSecrets'> = async (ctx, { params, body, record }) => {
  const { owner } = await findAccount(ctx, params);
  record?.about(rootArn(owner));
  const rows: { readonly accessKey: string; readonly secretKey: string }[] = [];
  for (const accessKey of body.accessKeys) {
    const isOwn = (await findKey(ctx, owner, accessKey)) !== undefined;
    const opened = isOwn ? await openAccessKey(ctx, accessKey) : undefined;
    if (opened?.account !== owner)
      throw fail('NoSuchEntity', `The account ${owner} has no access key ${accessKey}.`);
    rows.push({ accessKey, secretKey: opened.secretKey });
  }
  return jsonReply({ rows });
};
