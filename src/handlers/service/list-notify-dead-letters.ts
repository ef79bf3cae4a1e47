/** ListNotifyDeadLetters: the notifications that could not be delivered, newest first. */
import { readDeadLetters } from '../../metadata/background/dead-letters.ts';
import type { DeadLetter } from '../../metadata/records/queues.ts';
import { deadLettersResult } from '../../protocol/schemas/account/recorded.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { operatorsPage, toPaging } from './operators-page.ts';

export const ListNotifyDeadLetters: HandlerOf<'ListNotifyDeadLetters'> = async (ctx, request) => {
  const { max, before } = await operatorsPage(ctx, request, 'notify/dead-letters');
  const { rows, next } = await readDeadLetters(ctx.metadata, {
    before: before && { due: before.at, id: before.id },
    max,
  });
  return xmlReply(deadLettersResult, 'NotifyDeadLetters', {
    Entries: rows.map(({ due, id, requestId, attempts, task }) => {
      // The cast: each queue has one type of task.
      const { sink, message, error, since } = task as DeadLetter;
      return {
        Time: new Date(due).toISOString(),
        Since: new Date(since).toISOString(),
        RequestId: requestId,
        Sink: sink,
        Id: id,
        Attempts: attempts,
        Error: error,
        Message: JSON.stringify(message),
      };
    }),
    ...toPaging(next && { at: next.due, id: next.id }),
  });
};
