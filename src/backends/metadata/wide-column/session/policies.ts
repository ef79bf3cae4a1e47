/** The driver's policies for a slow or dead node: which statements are retried, and on which node. */
import cassandra from 'cassandra-driver';

const { retry } = cassandra.policies;

type Speculation = cassandra.policies.speculativeExecution.SpeculativeExecutionPolicy;
type Info = Parameters<cassandra.policies.retry.RetryPolicy['onRequestError']>[0];
type Decision = ReturnType<cassandra.policies.retry.RetryPolicy['onRequestError']>;

/** Times that one statement is sent again. */
const retriesMax = 2;

/**
 * Sends what is safe to repeat again, to the next node: reads, and plain writes, which carry their stamp. The driver does not ask
 * about the others, save for one that a node refused because too few replicas are up: of that nothing has happened.
 */
export class SafeRetries extends retry.RetryPolicy {
  override onRequestError(info: Info): Decision {
    return this.#again(info);
  }

  override onReadTimeout(info: Info): Decision {
    return this.#again(info);
  }

  override onWriteTimeout(info: Info): Decision {
    return this.#again(info);
  }

  override onUnavailable(info: Info): Decision {
    return info.nbRetry > 0 ? this.rethrowResult() : this.#next();
  }

  /** At the same consistency, which the driver's types require as an argument. */
  #next(): Decision {
    return this.retryResult(undefined as never, false);
  }

  #again(info: Info): Decision {
    return info.nbRetry >= retriesMax ? this.rethrowResult() : this.#next();
  }
}

/** Sends a read to a second node when the first takes long; one further node at a time. */
export const speculativeReads = (delayMs: number): Speculation => ({
  init() {},
  shutdown() {},
  getOptions: () => new Map(),
  newPlan(_keyspace, query) {
    let sent = 0;
    const isRead = typeof query === 'string' && query.startsWith('SELECT ');
    return {
      nextExecution() {
        sent += 1;
        return isRead && sent === 1 ? delayMs : -1;
      },
    };
  },
});
