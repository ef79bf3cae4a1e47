/**
 * Questions between the nodes of an installation, through the metadata that they share, because every node reaches these. A
 * process looks for questions once a second, where the metadata is distant; on one machine, `Siblings` reach every process.
 */
import { BoundedCache } from '../base/bounded-cache.ts';
import { describeError } from '../base/text/describe-error.ts';
import type { Context } from '../context.ts';
import { drawId } from '../domain/common/ids.ts';
import { everyGateway, silentAfterMs } from '../metadata/background/heartbeats.ts';
import { type NodeMessageRow, nodeMessages } from '../metadata/records/processes.ts';
import type { At, MetadataStore } from '../ports/metadata-store.ts';
import type { OtherNodes } from '../ports/other-nodes.ts';

// Questions that a process asks those of other nodes, and their answers: rows that live for a minute.

/**
 * A partition for each minute: processes look for questions every second, and a partition whose rows were removed long ago would be read
 * with all their tombstones.
 */
const minuteMs = 60_000;
const lifeMs = 2 * minuteMs;
/** Nodes use the time of the store, because their own clocks may be wrong. As they measure it, it may differ by so much. */
const skewMs = 10_000;
/** Questions of one look, and rows of one read of the answers. */
const rowsMax = 500;
/** Reads of the answers to one question: some 16 answers of the greatest length. */
const answerReadsMax = 8;
/** Characters of an answer in one row, which takes 24 KiB: up to three bytes each. */
const segmentCharacters = 8_000;
/** Rows that one call writes. */
const rowsPerWrite = 16;

const atBox = (box: string): At<typeof nodeMessages> => ({ table: nodeMessages, in: { box } });
const atQuestions = (minute: number): At<typeof nodeMessages> => atBox(`questions ${minute}`);
const atAnswers = (id: string): At<typeof nodeMessages> => atBox(`answers ${id}`);
const toMinute = (now: number): number => Math.floor(now / minuteMs);

type NodeMessage = Omit<NodeMessageRow, 'box'>;

const putQuestion = (
  metadata: Pick<MetadataStore, 'apply'>,
  question: NodeMessage,
  now: number,
): Promise<void> => {
  const box = `questions ${toMinute(now)}`;
  return metadata.apply([{ at: atBox(box), put: { ...question, box }, expiresAt: now + lifeMs }]);
};

/** The questions of the last seconds; some of them a process has answered already. */
async function recentQuestions(
  metadata: Pick<MetadataStore, 'scan'>,
  now: number,
): Promise<readonly NodeMessage[]> {
  const minutes = new Set([toMinute(now - skewMs), toMinute(now), toMinute(now + skewMs)]);
  const pages = await Promise.all(
    [...minutes].map((minute) => metadata.scan(atQuestions(minute)).next(rowsMax)),
  );
  return pages.flat().map(({ row }) => row);
}

/** @param answer `id` is the process that answers. A long answer takes several rows, whose ids state their number. */
async function putAnswer(
  metadata: Pick<MetadataStore, 'apply'>,
  { to, answer, now }: { readonly to: string; readonly answer: NodeMessage; readonly now: number },
): Promise<void> {
  const box = `answers ${to}`;
  const texts = splitText(answer.text);
  const rows = texts.map((text, n) => {
    const id = texts.length === 1 ? answer.id : `${answer.id} ${n + 1}/${texts.length}`;
    return { at: atBox(box), put: { ...answer, id, text, box }, expiresAt: now + lifeMs };
  });
  for (let n = 0; n < rows.length; n += rowsPerWrite) await metadata.apply(rows.slice(n, n + rowsPerWrite));
}

/** Cuts between two characters, because half a character cannot be stored. */
function splitText(text: string): readonly string[] {
  const texts: string[] = [];
  let start = 0;
  do {
    const end = start + segmentCharacters;
    const isSplitPair = /[\ud800-\udbff]/.test(text.charAt(end - 1));
    const cut = isSplitPair ? end - 1 : end;
    texts.push(text.slice(start, cut));
    start = cut;
  } while (start < text.length);
  return texts;
}

/** The answers of which all rows are there, by process. */
async function readAnswers(
  metadata: Pick<MetadataStore, 'scan'>,
  id: string,
): Promise<ReadonlyMap<string, string>> {
  const answers = new Map<string, string>();
  const partial = new Map<string, string[]>();
  const cursor = metadata.scan(atAnswers(id));
  for (let reads = 0; reads < answerReadsMax; reads += 1) {
    const page = await cursor.next(rowsMax);
    for (const { row } of page) {
      const [, process = row.id, n = '1', count = '1'] = /^(.*) (\d+)\/(\d+)$/.exec(row.id) ?? [];
      const texts = partial.get(process) ?? [];
      partial.set(process, texts);
      texts[Number(n) - 1] = row.text;
      if (Object.keys(texts).length === Number(count)) answers.set(process, texts.join(''));
    }
    if (page.length === 0) break;
  }
  return answers;
}

const clearAnswers = (metadata: Pick<MetadataStore, 'clear'>, id: string): Promise<unknown> =>
  metadata.clear(atAnswers(id), {});

type Ctx = Pick<Context, 'metadata' | 'clock' | 'random' | 'telemetry'>;

const lookMs = 1_000;
const waitMs = 100;
/** A longer answer is left out. */
const charactersMax = 1024 * 1024;
/** Questions that a process remembers as answered; they live for two minutes. */
const answeredMax = 4_096;

export class NodeQuestions implements OtherNodes {
  readonly #ctx: Ctx;
  readonly #answers = new Map<string, (about: string) => string>();
  readonly #answered = new BoundedCache<true>({ name: 'node-questions', entriesMax: answeredMax });
  #self: { readonly node: string; readonly process: string } | undefined;

  constructor(ctx: Ctx) {
    this.#ctx = ctx;
  }

  answer(topic: string, answer: (about: string) => string): void {
    this.#answers.set(topic, answer);
  }

  async ask(
    { topic, about }: { readonly topic: string; readonly about: string },
    withinMs: number,
  ): ReturnType<OtherNodes['ask']> {
    const { metadata, clock, random, telemetry } = this.#ctx;
    const self = this.#self;
    if (self === undefined) return { answers: [], silent: 0 };
    const ends = clock.elapsed() + withinMs;
    const answers = new Map<string, string>();
    let others: ReadonlySet<string> = new Set();
    try {
      others = await this.#othersOf(self.node);
      if (others.size === 0) return { answers: [], silent: 0 };
      const id = drawId(random);
      await putQuestion(metadata, { id, node: self.node, topic, text: about }, await metadata.now());
      while (answers.size < others.size && clock.elapsed() < ends) {
        await clock.sleep(waitMs);
        for (const [process, text] of await readAnswers(metadata, id))
          if (others.has(process)) answers.set(process, text);
      }
      // An answer that comes later expires by itself.
      await clearAnswers(metadata, id);
    } catch (cause) {
      telemetry.log('WARN', 'other nodes could not be asked', { topic, cause: describeError(cause) }, topic);
    }
    return { answers: [...answers.values()], silent: others.size - answers.size };
  }

  /** The processes of other nodes whose heartbeat is fresh. */
  async #othersOf(node: string): Promise<ReadonlySet<string>> {
    const { metadata } = this.#ctx;
    const now = await metadata.now();
    const others = new Set<string>();
    for await (const row of everyGateway(metadata))
      if (row.node !== node && now - row.beatAt <= silentAfterMs(metadata)) others.add(row.process);
    return others;
  }

  async serve(self: { readonly node: string; readonly process: string }, signal: AbortSignal): Promise<void> {
    this.#self = self;
    const { clock, telemetry } = this.#ctx;
    while (!signal.aborted) {
      await this.#look(self).catch((cause: unknown) =>
        telemetry.log('DEBUG', 'questions of other nodes could not be read', { cause }),
      );
      await clock.sleep(lookMs, signal);
    }
    this.#self = undefined;
  }

  async #look({ node, process }: { readonly node: string; readonly process: string }): Promise<void> {
    const { metadata, telemetry } = this.#ctx;
    for (const question of await recentQuestions(metadata, await metadata.now())) {
      if (question.node === node || this.#answered.get(question.id) === true) continue;
      this.#answered.set(question.id, true);
      const { id, topic, text: about } = question;
      try {
        const text = this.#answers.get(topic)?.(about);
        if (text === undefined || text.length > charactersMax) continue;
        const answer = { id: process, node, topic, text };
        await putAnswer(metadata, { to: id, answer, now: await metadata.now() });
      } catch (cause) {
        telemetry.log('DEBUG', 'a question of another node was not answered', { topic, cause });
      }
    }
  }
}
