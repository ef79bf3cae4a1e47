/** The long tasks of the installation: how far each is, and why it does not go on. */
import { type FollowedTask, listTasks } from '../../../domain/tasks/list-tasks.ts';
import type { TaskAmount } from '../../../metadata/records/tasks.ts';
import { tasksPageDefault } from '../../../protocol/operations/admin/workers.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

export const ListTasks: AdminHandler<'ListTasks'> = async (ctx, { query }) => {
  const { limit = tasksPageDefault, after, ...filter } = query;
  const { tasks, next } = await listTasks(ctx, filter, { after, limit });
  return jsonReply({ tasks: tasks.map(taskJson), ...(next === undefined ? {} : { next }) });
};

function taskJson({
  counts,
  left,
  perSecond,
  startedAt,
  updatedAt,
  finishedAt,
  lastError,
  ...shown
}: FollowedTask) {
  const { isCut = false, ...amount } = left ?? { count: 0 };
  return {
    ...shown,
    of: counts,
    ...(left === undefined ? {} : { left: amount }),
    ...(isCut ? { isLeftCut: true } : {}),
    ...(perSecond === undefined ? {} : { perSecond: rounded(perSecond) }),
    startedAt: seconds(startedAt),
    updatedAt: seconds(updatedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: seconds(lastError.at) } }),
  };
}

const rounded = ({ count, bytes }: TaskAmount): TaskAmount => ({
  count: Math.round(count * 10) / 10,
  ...(bytes === undefined ? {} : { bytes: Math.round(bytes) }),
});
