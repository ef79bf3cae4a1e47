/** Long tasks as lines of text: a bar, what is done and left, how fast, and until when. */
import { formatBytes } from '../../base/text/byte-size.ts';
import { printable } from '../../base/text/printable.ts';
import type { AdminReply } from '../../protocol/admin/operations.ts';

export type Task = AdminReply<'ListTasks'>['tasks'][number];
type Amount = Task['done'];
/** What a line shows, also of the work of a command that is not a task of the installation. */
type DisplayedTask = Omit<Task, 'kind' | 'name' | 'worker' | 'startedAt' | 'updatedAt' | 'finishedAt'> & {
  readonly kind: string;
};

const barWidth = 20;
const lineMax = 200;

function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} d`;
}

const formatCount = (count: number): string => count.toLocaleString('en-US', { maximumFractionDigits: 1 });

/** Of the amount that has more to tell: bytes where the task counts them, unless they are 0. */
function shareDone({ done, left }: Pick<Task, 'done' | 'left'>): number | undefined {
  if (left === undefined) return undefined;
  const computeShare = (of: (amount: Amount) => number): number | undefined => {
    const all = of(done) + of(left);
    return all === 0 ? undefined : of(done) / all;
  };
  return computeShare(({ bytes = 0 }) => bytes) ?? computeShare(({ count }) => count);
}

function formatBar(share: number): string {
  const full = Math.floor(barWidth * Math.min(1, Math.max(0, share)));
  return `[${'#'.repeat(full).padEnd(barWidth, '.')}] ${String(Math.floor(100 * Math.min(1, share))).padStart(3)} %`;
}

/** What the task is about, for example `force-empty photos`. */
const nameTask = ({ kind, bucket, cluster }: Pick<DisplayedTask, 'kind' | 'bucket' | 'cluster'>): string =>
  [kind, bucket, cluster].filter((part) => part !== undefined).join(' ');

const withAll = (done: string, all: string | undefined): string =>
  all === undefined ? done : `${done} of ${all}`;

function formatAmounts({ done, left, isLeftCut = false, of }: DisplayedTask): readonly string[] {
  const all = (amount: number | undefined, rest: number | undefined, format: (sum: number) => string) =>
    amount === undefined || rest === undefined
      ? undefined
      : `${isLeftCut ? '≥ ' : ''}${format(amount + rest)}`;
  const counted = withAll(formatCount(done.count), all(done.count, left?.count, formatCount));
  if (done.bytes === undefined) return [`${counted} ${of}`];
  return [`${counted} ${of}`, withAll(formatBytes(done.bytes), all(done.bytes, left?.bytes, formatBytes))];
}

function formatRate({ perSecond }: DisplayedTask): readonly string[] {
  if (perSecond === undefined) return ['running'];
  const bytes = perSecond.bytes === undefined ? [] : [`${formatBytes(perSecond.bytes)}/s`];
  return [`${formatCount(perSecond.count)}/s`, ...bytes];
}

/** One line. Names come from clients. */
export function formatTask(task: DisplayedTask): string {
  const share = shareDone(task);
  const parts = [
    nameTask(task),
    ...formatAmounts(task),
    ...(task.state === 'running' ? formatRate(task) : [task.state]),
    ...(task.etaSeconds === undefined ? [] : [`${formatSeconds(task.etaSeconds)} left`]),
    ...(task.why === undefined ? [] : [task.why]),
    ...(task.lastError === undefined ? [] : [`last error: ${task.lastError.message}`]),
  ];
  const bar = share === undefined ? '' : `${formatBar(share)}  `;
  return `${bar}${printable(parts.join('  '))}`.slice(0, lineMax);
}

export const formatTasks = (tasks: readonly Task[]): string =>
  tasks.length === 0 ? 'no tasks' : tasks.map(formatTask).join('\n');
