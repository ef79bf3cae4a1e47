/** The answers that are allowed while an engine does not answer: 503 with `Retry-After`, and no other status from 500 on. */
import type { LoadClient } from './load-client.ts';

export interface Refusal {
  readonly status: number;
  readonly retryAfter: unknown;
}

/** A client that records every answer with a status from 500 on. @param inner returns the present client */
export function noting(inner: () => LoadClient, refusals: Refusal[]): LoadClient {
  const client: LoadClient = {
    async send(spec) {
      const answer = await inner().send(spec);
      if (answer.status >= 500)
        refusals.push({ status: answer.status, retryAfter: answer.headers['retry-after'] });
      return answer;
    },
    async expect(spec, statuses = [200, 204]) {
      const answer = await client.send(spec);
      if (statuses.includes(answer.status)) return answer;
      throw new Error(`${spec.method ?? 'GET'} ${spec.path}: ${answer.status} ${answer.text.slice(0, 400)}`);
    },
    close: () => inner().close(),
  };
  return client;
}

export function misanswered(refusals: readonly Refusal[]): readonly string[] {
  const wrong = refusals.filter(({ status, retryAfter }) => status !== 503 || retryAfter === undefined);
  return wrong.length === 0 ? [] : [`answered ${JSON.stringify(wrong.slice(0, 5))}`];
}
