/** ListNotifyDeadLetters: the notifications that could not be delivered, newest first. */
import { readSubject } from '../../domain/events/deliver/subject.ts';
import { readDeadLetters } from '../../metadata/background/dead-letters.ts';
import type { DeadLetter } from '../../metadata/records/queues.ts';
import { deadLettersResult } from '../../protocol/schemas/account/recorded.ts';
import { visible } from '../admin/request/named-resources.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { operatorsPage, toPaging } from './operators-page.ts';

export const ListNotifyDeadLetters: HandlerOf<'ListNotifyDeadLetters'> = async (ctx, request) => {
  const { max, before, entries } = await operatorsPage(ctx, request, 'notify/dead-letters');
  const { rows, next } = await readDeadLetters(ctx.metadata, {
    before: before && { due: before.at, id: before.id },
    max,
  });
  // The cast: each queue has one type of task.
  const letters = rows.map((row) => ({ ...row, ...(row.task as DeadLetter) }));
  const about = letters.map((row) => ({ ...row, target: row.sink, bucket: readSubject(row.message).bucket }));
  const shown = await visible(entries, 'rows', about);
  return xmlReply(deadLettersResult, 'NotifyDeadLetters', {
    Entries: shown.map(({ due, id, requestId, attempts, sink, message, error, since }) => {
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
