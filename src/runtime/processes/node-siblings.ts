/**
 * `Siblings` over the channel between the primary and the processes of a node: the primary forwards an announcement to every other
 * process that has joined, and reports back when all of them have acted on it.
 */
import cluster, { type Worker } from 'node:cluster';
import type { Announcement, Siblings } from '../../ports/siblings.ts';

/** The primary keeps a round at most so long; the longest that a process waits itself. */
const roundMaxMs = 60_000;

type Message =
  /** process → primary: it follows announcements from now on; primary → process: it is known */
  | { readonly type: 'sluice:join' | 'sluice:joined' }
  /** announcing process → primary */
  | { readonly type: 'sluice:announce'; readonly id: number; readonly announcement: Announcement }
  /** primary → every other process */
  | { readonly type: 'sluice:announcement'; readonly round: number; readonly announcement: Announcement }
  /** other process → primary */
  | { readonly type: 'sluice:acknowledged'; readonly round: number }
  /** primary → announcing process */
  | { readonly type: 'sluice:announced'; readonly id: number }
  /** asking process → primary → every other process; the answers go back */
  | { readonly type: 'sluice:ask'; readonly id: number; readonly announcement: Announcement }
  | { readonly type: 'sluice:question'; readonly round: number; readonly announcement: Announcement }
  | { readonly type: 'sluice:answer'; readonly round: number; readonly answer: string | undefined }
  | { readonly type: 'sluice:answered'; readonly id: number; readonly answer: string | undefined }
  /** primary → asking process: so many answers follow */
  | { readonly type: 'sluice:asked'; readonly id: number; readonly others: number };

const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' &&
  value !== null &&
  String((value as { type?: unknown }).type).startsWith('sluice:');

/**
 * For one of several processes. Resolves when the primary knows it. Call it before anything is cached, because before that this process
 * gets no announcements.
 * @param onFailure called with the error of an act on an announcement
 */
export async function joinSiblings(onFailure: (cause: unknown) => void): Promise<Siblings> {
  const actions = new Map<string, ((about: string) => void)[]>();
  const waiting = new Map<number, (isAcknowledged: boolean) => void>();
  const answers = new Map<string, (about: string) => string>();
  const questions = new Map<number, Question>();
  const { promise: joined, resolve: join } = Promise.withResolvers<void>();
  let ids = 0;
  // The processes of a node end with their primary.
  const send = (message: Message): void => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
  process.on('message', (message) => {
    if (!isMessage(message)) return;
    if (message.type === 'sluice:joined') join();
    if (message.type === 'sluice:announced') waiting.get(message.id)?.(true);
    if (message.type === 'sluice:asked') questions.get(message.id)?.expect(message.others);
    if (message.type === 'sluice:answered') questions.get(message.id)?.take(message.answer);
    if (message.type === 'sluice:question') {
      const { topic, about } = message.announcement;
      let answer: string | undefined;
      try {
        answer = answers.get(topic)?.(about);
      } catch (cause) {
        onFailure(cause);
      }
      send({ type: 'sluice:answer', round: message.round, answer });
    }
    if (message.type !== 'sluice:announcement') return;
    const { topic, about } = message.announcement;
    let isAcknowledged = true;
    for (const act of actions.get(topic) ?? []) {
      try {
        act(about);
      } catch (cause) {
        isAcknowledged = false;
        onFailure(cause);
      }
    }
    if (isAcknowledged) send({ type: 'sluice:acknowledged', round: message.round });
  });
  send({ type: 'sluice:join' });
  await joined;
  return {
    announce: (announcement, withinMs) =>
      new Promise((resolve) => {
        const id = ids++;
        const finish = (isAcknowledged: boolean): void => {
          clearTimeout(timer);
          waiting.delete(id);
          resolve(isAcknowledged);
        };
        const timer = setTimeout(() => finish(false), Math.min(withinMs, roundMaxMs));
        waiting.set(id, finish);
        send({ type: 'sluice:announce', id, announcement });
      }),
    subscribe(topic, act) {
      actions.set(topic, [...(actions.get(topic) ?? []), act]);
    },
    async ask(announcement, withinMs) {
      const id = ids++;
      const question = new Question(withinMs);
      questions.set(id, question);
      send({ type: 'sluice:ask', id, announcement });
      const input = await question.answers;
      questions.delete(id);
      return input;
    },
    answer(topic, answer) {
      answers.set(topic, answer);
    },
  };
}

/** The answers to a question, until all have come or its time is over. */
class Question {
  readonly answers: Promise<readonly string[]>;
  readonly #input: string[] = [];
  #missing = Number.POSITIVE_INFINITY;
  #end = (): void => {};

  constructor(withinMs: number) {
    this.answers = new Promise((resolve) => {
      const timer = setTimeout(() => this.#end(), Math.min(withinMs, roundMaxMs));
      this.#end = () => {
        clearTimeout(timer);
        resolve(this.#input);
      };
    });
  }

  expect(others: number): void {
    this.#missing = others;
    if (others === 0) this.#end();
  }

  take(answer: string | undefined): void {
    if (answer !== undefined) this.#input.push(answer);
    this.#missing -= 1;
    if (this.#missing === 0) this.#end();
  }
}

/** An announcement that some processes have not acted on yet. */
interface Round {
  readonly missing: Set<number>;
  readonly end: () => void;
}

/**
 * For the primary.
 * @param hear called with every announcement
 */
export function relayAnnouncements(hear?: (announcement: Announcement) => void): void {
  const joined = new Set<number>();
  const rounds = new Map<number, Round>();
  const asking = new Map<number, { readonly from: Worker; readonly id: number; missing: number }>();
  let count = 0;
  const othersThan = (from: Worker): readonly Worker[] =>
    Object.values(cluster.workers ?? {}).filter(
      (worker): worker is Worker => worker !== undefined && worker.id !== from.id && joined.has(worker.id),
    );
  const acknowledged = (round: Round | undefined, workerId: number): void => {
    if (round?.missing.delete(workerId) && round.missing.size === 0) round.end();
  };
  cluster.on('message', (from, message: unknown) => {
    if (!isMessage(message)) return;
    if (message.type === 'sluice:join') {
      joined.add(from.id);
      send(from, { type: 'sluice:joined' });
    }
    if (message.type === 'sluice:acknowledged') acknowledged(rounds.get(message.round), from.id);
    if (message.type === 'sluice:answer') {
      const round = asking.get(message.round);
      if (round === undefined) return;
      send(round.from, { type: 'sluice:answered', id: round.id, answer: message.answer });
      round.missing -= 1;
      if (round.missing === 0) asking.delete(message.round);
    }
    if (message.type === 'sluice:ask') {
      const others = othersThan(from);
      const round = count++;
      send(from, { type: 'sluice:asked', id: message.id, others: others.length });
      if (others.length === 0) return;
      asking.set(round, { from, id: message.id, missing: others.length });
      // A process that ends never answers.
      setTimeout(() => asking.delete(round), roundMaxMs).unref();
      for (const worker of others)
        send(worker, { type: 'sluice:question', round, announcement: message.announcement });
    }
    if (message.type !== 'sluice:announce') return;
    const { id, announcement } = message;
    hear?.(announcement);
    const others = othersThan(from);
    const number = count++;
    const end = (): void => {
      clearTimeout(timer);
      rounds.delete(number);
      send(from, { type: 'sluice:announced', id });
    };
    const timer = setTimeout(() => rounds.delete(number), roundMaxMs);
    if (others.length === 0) return end();
    rounds.set(number, { missing: new Set(others.map((worker) => worker.id)), end });
    for (const worker of others) send(worker, { type: 'sluice:announcement', round: number, announcement });
  });
  // A process that ends remembers nothing.
  cluster.on('exit', (worker) => {
    joined.delete(worker.id);
    for (const round of [...rounds.values()]) acknowledged(round, worker.id);
  });
}

/** From the primary itself, to every process. */
export function announceToProcesses(announcement: Announcement): void {
  for (const worker of Object.values(cluster.workers ?? {}))
    if (worker !== undefined) send(worker, { type: 'sluice:announcement', round: -1, announcement });
}

function send(worker: Worker, message: Message): void {
  if (worker.isConnected()) worker.send(message, () => {});
}
