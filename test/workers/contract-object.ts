/** The object of the contract: the tables of the laws, and a clock that a law sets. Bundled for workerd. */
import type { Clock } from '../../src/ports/clock.ts';
import type { AnyTable } from '../../src/ports/metadata-store.ts';
import type { CloudflareBindings } from '../../src/runtime/cloudflare/bindings.ts';
import { contractTables } from '../contract/metadata-store/tables.ts';
import { NamedMetadata } from './named-metadata.ts';
import { answerObjectCall } from './object-calls.ts';

let now = Date.UTC(2026, 0, 1);

export class ContractMetadata extends NamedMetadata {
  protected override clock(): Clock {
    return { now: () => now, elapsed: () => now, sleep: async () => {} };
  }

  protected override tables(): readonly AnyTable[] {
    return contractTables;
  }

  async pass(ms: number): Promise<void> {
    now += ms;
    await this.maintain();
  }
}

export default {
  fetch: (request: Request, { SLUICE }: CloudflareBindings) => answerObjectCall(request, SLUICE),
};
