/** Credentials that are fetched when they are first needed, again shortly before they end, and once more when they are refused. */
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { CredentialSource, KmsCredentials } from './cloud-credentials.ts';

export interface RefreshingOptions {
  readonly source: CredentialSource;
  readonly clock: Pick<Clock, 'now'>;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

/** How long before their end they are fetched again, in the background; requests use the former ones meanwhile. */
const earlyMs = 5 * 60_000;

export class RefreshingCredentials {
  readonly #options: RefreshingOptions;
  #known: KmsCredentials | undefined;
  #fetching: Promise<KmsCredentials> | undefined;

  constructor(options: RefreshingOptions) {
    this.#options = options;
  }

  async current(): Promise<KmsCredentials> {
    const { clock, telemetry } = this.#options;
    const known = this.#known;
    const leftMs = (known?.endsAt ?? Number.POSITIVE_INFINITY) - clock.now();
    if (known === undefined || leftMs <= 0) return this.#fetch();
    if (leftMs < earlyMs)
      this.#fetch().catch((cause: unknown) =>
        telemetry.log('WARN', 'the credentials for the key provider could not be fetched again', { cause }),
      );
    return known;
  }

  /** Other credentials than those that were refused; undefined where the source still has these. */
  async replace(refused: KmsCredentials): Promise<KmsCredentials | undefined> {
    const known = this.#known;
    const next = known === undefined || known.accessKey === refused.accessKey ? await this.#fetch() : known;
    const isSame = next.accessKey === refused.accessKey && next.token === refused.token;
    return isSame && next.secretKey === refused.secretKey ? undefined : next;
  }

  #fetch(): Promise<KmsCredentials> {
    this.#fetching ??= this.#options.source
      .fetch()
      .then((found) => {
        this.#known = found;
        return found;
      })
      .finally(() => {
        this.#fetching = undefined;
      });
    return this.#fetching;
  }
}
