/** Questions that a process asks those of other nodes, and their answers: rows that live for a minute. */
import type { At, MetadataStore } from '../../ports/metadata-store.ts';
import { type NodeMessageRow, nodeMessages } from '../records/processes.ts';

/**
 * A partition for each minute: processes look for questions every second, and a partition whose rows were removed long ago would be read
 * with all their tombstones.
 */
const minuteMs = 60_000;
const lifeMs = 2 * minuteMs;
/** The clocks of nodes may differ by so much. */
const skewMs = 10_000;
/** Questions of one look, and answers to one question, at most. */
const rowsMax = 500;

const boxOf = (box: string): At<typeof nodeMessages> => ({ table: nodeMessages, in: { box } });
const questionsOf = (minute: number): At<typeof nodeMessages> => boxOf(`questions ${minute}`);
const answersTo = (id: string): At<typeof nodeMessages> => boxOf(`answers ${id}`);
const minuteOf = (now: number): number => Math.floor(now / minuteMs);

export type NodeMessage = Omit<NodeMessageRow, 'box'>;

export const putQuestion = (
  metadata: Pick<MetadataStore, 'apply'>,
  question: NodeMessage,
  now: number,
): Promise<void> => {
  const box = `questions ${minuteOf(now)}`;
  return metadata.apply([{ at: boxOf(box), put: { ...question, box }, expiresAt: now + lifeMs }]);
};

/** The questions of the last seconds; some of them a process has answered already. */
export async function recentQuestions(
  metadata: Pick<MetadataStore, 'scan'>,
  now: number,
): Promise<readonly NodeMessage[]> {
  const minutes = new Set([minuteOf(now - skewMs), minuteOf(now), minuteOf(now + skewMs)]);
  const pages = await Promise.all(
    [...minutes].map((minute) => metadata.scan(questionsOf(minute)).next(rowsMax)),
  );
  return pages.flat().map(({ row }) => row);
}

/** @param answer `id` is the process that answers */
export const putAnswer = (
  metadata: Pick<MetadataStore, 'apply'>,
  { to, answer, now }: { readonly to: string; readonly answer: NodeMessage; readonly now: number },
): Promise<void> => {
  const box = `answers ${to}`;
  return metadata.apply([{ at: boxOf(box), put: { ...answer, box }, expiresAt: now + lifeMs }]);
};

export async function readAnswers(
  metadata: Pick<MetadataStore, 'scan'>,
  id: string,
): Promise<readonly NodeMessage[]> {
  return (await metadata.scan(answersTo(id)).next(rowsMax)).map(({ row }) => row);
}

export const clearAnswers = (metadata: Pick<MetadataStore, 'clear'>, id: string): Promise<unknown> =>
  metadata.clear(answersTo(id), {});
