/** The object of the contract: the tables of the laws, and a clock that a law sets. Bundled for workerd. */
import type { Clock } from '../../src/ports/clock.ts';
import type { AnyTable } from '../../src/ports/metadata-store.ts';
import { contractTables } from '../contract/metadata-store/tables.ts';
import { NamedMetadata } from './named-metadata.ts';

let now = Date.UTC(2026, 0, 1);

export class ContractMetadata extends NamedMetadata {
  protected override clock(): Clock {
    return { now: () => now, elapsed: () => now, sleep: async () => {} };
  }

  protected override tables(): readonly AnyTable[] {
    return contractTables;
  }

  /** A call whose refusal is a value, because the bridge of miniflare loses the message of an error. */
  async attempt(
    ...call: Parameters<NamedMetadata['call']>
  ): Promise<{ readonly answer: unknown } | { readonly refusal: string }> {
    return this.call(...call).then(
      (answer) => ({ answer }),
      (cause: unknown) => ({ refusal: String(cause) }),
    );
  }

  async pass(ms: number): Promise<void> {
    now += ms;
    await this.maintain();
  }
}

export default { fetch: () => new Response() };
