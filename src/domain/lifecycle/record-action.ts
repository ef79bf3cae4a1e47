/** What the commit of a lifecycle action records: its events, and its line in the access log of the bucket. */
import type { Context } from '../../context.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { lineOfAction } from '../deliveries/access-log/queue-line.ts';
import { services } from '../deliveries/service-write.ts';
import { eventChanges, hasListener } from '../events/events.ts';
import type { KeyMove, Recorder } from '../events/recorder.ts';
import type { DueAction } from './due-action.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'application'>;
interface Run {
  readonly bucket: BucketRow;
  readonly requestId: string;
}

/** The name that the public service states as the cause and the source of its own actions. */
const service = services.inventory;

const eventOf = {
  expire: 'LifecycleExpiration',
  'remove-noncurrent': 'LifecycleExpiration',
  'remove-marker': 'LifecycleExpiration',
  transition: 'LifecycleTransition',
  'end-restore': 'ObjectRestore:Delete',
} as const satisfies Readonly<Record<Exclude<DueAction['do'], 'abort'>, string>>;

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-and-other-bucket-config.html */
const transitions: Readonly<Record<string, string>> = {
  STANDARD_IA: 'TRANSITION_SIA',
  ONEZONE_IA: 'TRANSITION_ZIA',
  INTELLIGENT_TIERING: 'TRANSITION_INT',
  GLACIER_IR: 'TRANSITION_GIR',
  DEEP_ARCHIVE: 'TRANSITION_GDA',
};

/** As access logs name the action; undefined for the end of a restore, for which the public service has no name. */
function nameOperation(action: DueAction, fresh: KeyMove['fresh'] | undefined): string | undefined {
  if (action.do === 'end-restore') return undefined;
  if (action.do === 'abort') return 'S3.DELETE.UPLOAD';
  if (action.do === 'transition') return `S3.${transitions[action.storageClass] ?? 'TRANSITION'}.OBJECT`;
  return fresh?.marker === true ? 'S3.CREATE.DELETEMARKER' : 'S3.EXPIRE.OBJECT';
}

/** The audit log has a row for each page of a pass instead. */
export const recordAction = (ctx: Ctx, run: Run, action: DueAction): Recorder => ({
  changes: async (move) => {
    const { requestId } = run;
    const { bucket = run.bucket, fresh, amended, gone = [] } = move ?? {};
    const version = fresh ?? amended ?? gone[0];
    const { key } = action.do === 'abort' ? action.upload.row.session : action.version.row;
    const operation = nameOperation(action, fresh);
    const isNothing = operation === undefined || (move === undefined && action.do !== 'abort');
    const line = isNothing ? [] : await lineOfAction(ctx, bucket, { operation, key, version, requestId });
    if (move === undefined || action.do === 'abort' || !hasListener(ctx, bucket)) return line;
    const events = [eventOf[action.do]];
    return [
      ...(await eventChanges(ctx, move, { events, principalId: service, source: service, requestId })),
      ...line,
    ];
  },
  about: () => {},
  applied: () => {},
});
