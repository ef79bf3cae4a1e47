/** The bar at the bottom of every page while there are uploads: all of them in one line, and each of them where it is open. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { isTyping } from '../../app/keys.tsx';
import { PageLink } from '../../app/page-link.tsx';
import { useSearchState } from '../../app/url.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Button } from '../../ui/form.tsx';
import { Progress } from '../../ui/progress.tsx';
import { Failure } from '../../ui/states.tsx';
import { formatBytes, Time } from '../../ui/values.tsx';
import { nameOf, placeOf, visible } from '../objects/listing.ts';
import { Hindered, type Obstacle } from './precheck.ts';
import {
  askFile,
  cancelUpload,
  clearUploads,
  giveFile,
  pauseUpload,
  queueRate,
  resumeUpload,
  type Upload,
  type UploadState,
  useUploads,
} from './queue.ts';
import { HiddenInput } from './tools.tsx';
import { ObjectExists } from './transfer.ts';
import { w } from './words.ts';

/** Lines that are in the page at a time: first those that need the user, then those that run. */
const linesMax = 100;
const order: readonly UploadState[] = [
  'conflict',
  'file',
  'failed',
  'running',
  'paused',
  'waiting',
  'done',
  'cancelled',
];
const tones: Readonly<Record<UploadState, Tone>> = {
  conflict: 'warn',
  file: 'warn',
  failed: 'bad',
  running: 'accent',
  paused: 'neutral',
  waiting: 'neutral',
  done: 'good',
  cancelled: 'neutral',
};

export default function UploadBar() {
  const uploads = useUploads();
  const [search, setSearch] = useSearchState();
  const isAsked = search['uploads'] !== undefined;
  // Another page has another address; the list stays open there.
  const [isOpen, setOpen] = useState(isAsked);
  useEffect(() => {
    if (isAsked) setOpen(true);
  }, [isAsked]);
  const show = useCallback(
    (next: boolean) => {
      setOpen(next);
      setSearch({ uploads: next ? 'open' : undefined }, { keepsForms: true });
    },
    [setSearch],
  );
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const isElsewhere = document.querySelector('dialog[open]') !== null || isTyping(event.target);
      if (isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'u') show(!isOpen);
      if (event.key === 'Escape' && isOpen && document.querySelector('.panel') === null) show(false);
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, [isOpen, show]);
  if (uploads.length === 0) return null;
  const shown = isOpen ? firstLines(uploads) : [];
  return (
    <section class="upload-bar" aria-label={w.uploads}>
      {isOpen && (
        <section
          class="upload-lines"
          aria-label={w.lines}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys scroll what has the focus.
          tabIndex={0}
        >
          <ul>
            {shown.map((upload) => (
              <Line key={upload.id} upload={upload} />
            ))}
          </ul>
          {uploads.length > shown.length && (
            <p class="card-line quiet">{w.further(uploads.length - shown.length)}</p>
          )}
        </section>
      )}
      <Summary uploads={uploads} isOpen={isOpen} onToggle={() => show(!isOpen)} />
    </section>
  );
}

function firstLines(uploads: readonly Upload[]): readonly Upload[] {
  const found: Upload[] = [];
  for (const state of order) {
    if (found.length >= linesMax) break;
    found.push(...uploads.filter((each) => each.state === state).slice(0, linesMax - found.length));
  }
  return found;
}

function forAll(uploads: readonly Upload[], change: (upload: Upload) => void): void {
  for (const each of uploads) change(each);
}

interface SummaryProps {
  readonly uploads: readonly Upload[];
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Summary({ uploads, isOpen, onToggle }: SummaryProps) {
  const of = (...states: readonly UploadState[]) => uploads.filter(({ state }) => states.includes(state));
  const counted = uploads.filter(({ state }) => state !== 'cancelled');
  const done = of('done');
  const active = of('running', 'waiting');
  const moving = of('running', 'waiting', 'paused', 'done');
  const resumable = of('paused');
  const conflicts = of('conflict');
  const undecided = conflicts.length + of('file').length;
  const failed = of('failed');
  const sum = (list: readonly Upload[], take: (upload: Upload) => number) =>
    list.reduce((total, each) => total + take(each), 0);
  const left = sum(active, ({ size, sent }) => size - sent);
  const perSecond = queueRate.perSecond();
  return (
    <div class="upload-summary">
      <div class="upload-words">
        <span role="status">
          {w.progressOf(done.length, counted.length)}
          {undecided > 0 && (
            <>
              {' '}
              <Chip tone="warn">{w.attention(undecided)}</Chip>
            </>
          )}
          {failed.length > 0 && (
            <>
              {' '}
              <Chip tone="bad">{w.failures(failed.length)}</Chip>
            </>
          )}
          {active.some(({ wait }) => wait === 'login') && (
            <>
              {' '}
              <Chip tone="warn">{w.waitsForLogin}</Chip>
            </>
          )}
        </span>
        {active.length > 0 && (
          <Progress
            label={w.progress}
            done={sum(moving, ({ sent }) => sent)}
            total={sum(moving, ({ size }) => size)}
            unit="bytes"
            {...(perSecond > 0 ? { perSecond, etaSeconds: left / perSecond } : {})}
          />
        )}
      </div>
      <div class="actions">
        {conflicts.length > 1 && (
          <>
            <Button onClick={() => forAll(conflicts, (each) => resumeUpload(each, true))}>
              {w.overwriteAll}
            </Button>
            <Button onClick={() => forAll(conflicts, cancelUpload)}>{w.skipAll}</Button>
          </>
        )}
        {active.length > 0 && (
          <Button icon="pause" onClick={() => forAll(active, pauseUpload)}>
            {w.pauseAll}
          </Button>
        )}
        {resumable.length > 0 && active.length === 0 && (
          <Button icon="play" onClick={() => forAll(resumable, (each) => resumeUpload(each))}>
            {w.resumeAll}
          </Button>
        )}
        {active.length === 0 && of('done', 'failed', 'cancelled').length > 0 && (
          <Button onClick={clearUploads}>{w.clear}</Button>
        )}
        <Button icon={isOpen ? 'down' : 'up'} label={isOpen ? w.collapse : w.expand} onClick={onToggle} />
      </div>
    </div>
  );
}

function Line({ upload }: { readonly upload: Upload }) {
  const { state, key, bucket, size, sent, wait } = upload;
  const name = visible(nameOf(key));
  const rate = upload.rate.perSecond();
  return (
    <li class="line">
      <div class="line-body upload-body">
        {state === 'running' && wait !== 'login' ? (
          <Progress
            label={name}
            done={sent}
            total={size}
            unit="bytes"
            {...(rate > 0 ? { perSecond: rate } : {})}
          />
        ) : (
          <div class="upload-name">
            <bdi class="cut" title={`${bucket}/${visible(key)}`}>
              {name}
            </bdi>
            <Chip tone={wait === 'login' ? 'warn' : tones[state]}>
              {wait === 'login' ? w.waitsForLogin : w.states[state]}
            </Chip>
            <span class="quiet number">
              {sent > 0 && sent < size ? `${formatBytes(sent)} / ${formatBytes(size)}` : formatBytes(size)}
            </span>
          </div>
        )}
        {wait !== undefined && <p class="quiet">{w.waits[wait]}</p>}
        <About upload={upload} />
      </div>
      <div class="actions">
        <Controls upload={upload} name={name} />
      </div>
    </li>
  );
}

/** Another try would end the same way. */
const isFinal = (error: unknown): boolean =>
  error instanceof Hindered && (error.obstacle.by === 'key' || error.obstacle.by === 'size');

function Controls({ upload, name }: { readonly upload: Upload; readonly name: string }) {
  const { state, key, bucket } = upload;
  if (state === 'done') {
    const place = placeOf(key.slice(0, key.lastIndexOf('/') + 1));
    return (
      <PageLink
        page="objects"
        params={{ bucket, _splat: place.splat }}
        search={{ prefix: place.prefix, key, uploads: 'open' }}
      >
        {w.open}
      </PageLink>
    );
  }
  if (state === 'cancelled') return null;
  const isActive = state === 'running' || state === 'waiting';
  return (
    <>
      {isActive && <Button icon="pause" label={w.pauseOf(name)} onClick={() => pauseUpload(upload)} />}
      {state === 'paused' && (
        <Button icon="play" label={w.resumeOf(name)} onClick={() => resumeUpload(upload)} />
      )}
      {state === 'conflict' && (
        <>
          <Button onClick={() => resumeUpload(upload, true)}>{w.overwriteOne}</Button>
          <Button onClick={() => cancelUpload(upload)}>{w.skipOne}</Button>
        </>
      )}
      {state === 'failed' && !isFinal(upload.error) && (
        <Button onClick={() => resumeUpload(upload)}>{t.ui.retry}</Button>
      )}
      {state !== 'conflict' && (
        <Button icon="close" label={w.cancelOf(name)} onClick={() => cancelUpload(upload)} />
      )}
    </>
  );
}

/** What the user has to know of an upload that does not run, and what may be done about it. */
function About({ upload }: { readonly upload: Upload }) {
  const { state, error } = upload;
  if (state === 'file') return <FileAgain upload={upload} />;
  if (state === 'conflict' && error instanceof ObjectExists)
    return error.modified === '' ? (
      <p>{w.existsUnread}</p>
    ) : (
      <p>
        {w.exists(formatBytes(error.size))} <Time at={error.modified} />.
      </p>
    );
  if (state !== 'failed') return null;
  if (error instanceof Hindered) return <Hindrance obstacle={error.obstacle} upload={upload} />;
  if (error instanceof DOMException) return <p class="fault">{w.changed}</p>;
  return <Failure error={error} />;
}

function FileAgain({ upload }: { readonly upload: Upload }) {
  const [fault, setFault] = useState<keyof typeof w.otherFile>();
  const look = (found: Promise<keyof typeof w.otherFile | undefined>) => {
    found.then(setFault, () => setFault('refused'));
  };
  return (
    <>
      <p class="quiet">{w.again(formatBytes(upload.size))}</p>
      <div class="actions">
        {upload.handle !== undefined && (
          <Button icon="play" onClick={() => look(askFile(upload))}>
            {w.goOn}
          </Button>
        )}
        <HiddenInput
          isMultiple={false}
          onFiles={([source]) => source !== undefined && look(giveFile(upload, source.file))}
        >
          {(open) => (
            <Button icon="file" onClick={open}>
              {w.chooseAgain}
            </Button>
          )}
        </HiddenInput>
      </div>
      {fault !== undefined && (
        <p class="fault" role="alert">
          {w.otherFile[fault]}
        </p>
      )}
    </>
  );
}

function Hindrance({ obstacle, upload }: { readonly obstacle: Obstacle; readonly upload: Upload }) {
  const { bucket } = upload;
  return (
    <p role="alert">
      <span class="fault">{sentenceOf(obstacle)}</span>{' '}
      {obstacle.by === 'policy' && <Decision upload={upload} action={obstacle.action} />}
      {obstacle.by === 'quota' && (
        <PageLink page="usage" params={{ bucket }}>
          {w.toQuota}
        </PageLink>
      )}
    </p>
  );
}

/** To the statement that decides. */
function Decision({ upload, action }: { readonly upload: Upload; readonly action: string }) {
  const { bucket, key, owner: accessKey } = upload;
  const allowed = useAllowed(['ExplainDecision']);
  if (allowed('ExplainDecision') !== true) return null;
  return (
    <PageLink page="access" params={{ bucket }} search={{ action, key, accessKey, asked: '1' }}>
      {w.checkAccess}
    </PageLink>
  );
}

function sentenceOf(obstacle: Obstacle): string {
  if (obstacle.by === 'size') return w.tooLarge;
  if (obstacle.by === 'policy') return w.policy(obstacle.action);
  if (obstacle.by === 'key')
    return { length: w.keyLength(formatNumber(obstacle.bytes)), dots: w.keyDots, text: w.keyText }[
      obstacle.reason
    ];
  const { limit, needed, max, used } = obstacle;
  const format = limit === 'bucketObjects' ? (value: number) => formatNumber(value) : formatBytes;
  return w.quotas[limit](format(needed), format(Math.max(0, max - used)), format(max));
}
