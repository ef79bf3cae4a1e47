/**
 * The audit row of one request (design §7.15). It rides in the commit that does what was asked, where there is one,
 * and says there that it went well; the pipeline writes it where nothing was committed or it ended otherwise.
 */
import type { Identity } from '../auth/identity.ts';
import { principalOf } from '../auth/principal.ts';
import type { Context } from '../context.ts';
import type { Recorder } from '../domain/recorder.ts';
import { audited } from '../metadata/audit.ts';
import type { AuditRow } from '../metadata/recorded.ts';
import type { SideChange } from '../ports/metadata-store.ts';
import type { Wire } from '../protocol/wire.ts';
import { askedAt, type Place } from './locate.ts';

export interface AuditedRequest {
  readonly requestId: string;
  readonly wire: Wire;
  /** The operation's name, or `admin:<OperationName>`. */
  readonly action: string;
  readonly identity: Identity;
  /** '' where it is about none. */
  readonly bucketName: string;
  readonly key: string;
}

/** How a request ended; `code` is that of its refusal. */
export interface Ending {
  readonly status: number;
  readonly code: string | undefined;
}

/** Names that were refused for their length are not kept whole. */
const nameMax = 1024;

type Ctx = Pick<Context, 'metadata' | 'clock' | 'config' | 'telemetry'>;

export class Audit implements Recorder {
  readonly #ctx: Ctx;
  readonly #entry: Omit<AuditRow, 'hour' | 'slot'>;
  #isWritten = false;

  constructor(ctx: Ctx, request: AuditedRequest) {
    this.#ctx = ctx;
    this.#entry = entryOf(request, ctx.clock.now());
  }

  changes(): readonly SideChange[] {
    return [this.#row(this.#entry)];
  }

  applied(): void {
    this.#isWritten = true;
  }

  /** Sees to it that the row is there and says how the request ended. What was done stands, also where this fails. */
  async end({ status, code }: Ending): Promise<void> {
    if (this.#isWritten && code === undefined && status === this.#entry.status) return;
    const entry = { ...this.#entry, status, ...(code === undefined ? {} : { error: code }) };
    try {
      await this.#ctx.metadata.apply([this.#row(entry)]);
    } catch (cause) {
      const { id, action } = entry;
      this.#ctx.telemetry.log('ERROR', 'an audit row was not written', { request_id: id, action, cause });
    }
  }

  #row(entry: Omit<AuditRow, 'hour' | 'slot'>): SideChange {
    return audited(entry, { retentionMs: this.#ctx.config.SVC_AUDIT_RETENTION });
  }
}

interface Arrived {
  readonly requestId: string;
  readonly place: Place | undefined;
}

/** Of a request that was refused before its operation mattered: who called is not known (spec "Events" 5). */
export function auditOfUnknown(ctx: Ctx, { requestId, place }: Arrived): Audit | undefined {
  const asked = place === undefined ? undefined : askedAt(place);
  if (place === undefined || !asked?.audited) return undefined;
  return new Audit(ctx, { ...asked, requestId, wire: place.wire, identity: undefined });
}

function entryOf(
  { requestId, wire, action, identity, bucketName, key }: AuditedRequest,
  time: number,
): Omit<AuditRow, 'hour' | 'slot'> {
  return {
    time,
    id: requestId,
    action,
    resource: bucketName === '' ? '' : `bucket:${bucketName.slice(0, nameMax)}`,
    ...(key === '' ? {} : { key: key.slice(0, nameMax) }),
    // What it will be if all goes well; if not, `end` says so.
    status: wire.method === 'DELETE' ? 204 : 200,
    ...(identity === undefined
      ? {}
      : { principal: arnOf(identity), accessKey: identity.accessKey, account: identity.owner }),
    source: wire.remote,
  };
}

function arnOf(identity: Identity): string {
  const { arn, sessionArn = arn } = principalOf(identity);
  return sessionArn;
}
