/** What a request asks for, as facts of its judgement: by its headers, or by its body where the operation's entry reads facts from it. */
import type { BodyFacts } from '../handlers/body-facts.ts';
import type { Tags } from '../handlers/object/tagging-header.ts';
import { tagsOf } from '../handlers/object/tagging-header.ts';
import { header } from '../handlers/own-headers.ts';
import { factsReaders } from '../handlers/table.ts';
import type { OperationName } from '../protocol/operations.ts';
import type { Authorized, Selected } from './request.ts';

/** Whether the body is read before the caller is judged. */
export const asksInBody = (operation: OperationName): boolean => factsReaders.has(operation);

/** A copy that takes its source's tags passes over those that its request names. */
const copiesTags = (request: Selected): boolean =>
  request.operation === 'CopyObject' && header(request, 'tagging-directive') !== 'REPLACE';

type Asking = Selected & Partial<Pick<Authorized, 'body'>>;

export interface AskedFacts<R> extends Pick<BodyFacts, 'named' | 'along'> {
  /** The request as it is judged. */
  readonly caller: R;
  readonly requestTags: Tags | undefined;
}

export function askedFacts<R extends Asking>(request: R): AskedFacts<R> {
  const { operation, row, body } = request;
  const read = factsReaders.get(operation);
  if (read === undefined || body === undefined) {
    const asksTags = row.also !== undefined && 'tagging' in row.also && !copiesTags(request);
    return { caller: request, requestTags: asksTags ? tagsOf(header(request, 'tagging')) : undefined };
  }
  const { requestTags, headers = {}, ...others } = read(body);
  const own = new Map(request.own);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) own.delete(name);
    else own.set(name, value);
  }
  return { ...others, caller: { ...request, own }, requestTags };
}
