/** States of clusters and workers, as a word with its tone and what it means. */
import { words } from '../text/text.ts';
import { Chip, type Tone } from './chip.tsx';

type Words = Readonly<Record<string, string>>;

export const wordsOfStates = words({
  en: {
    clusters: {
      live: 'live',
      pending: 'pending',
      draining_readonly: 'draining',
      evacuating: 'evacuating',
      removed: 'removed',
      damaged: 'damaged',
    } as Words,
    clusterHints: {
      live: 'It serves reads, and takes its share of new writes.',
      pending: 'It takes no new writes until it is activated.',
      draining_readonly: 'It serves reads, and takes no new writes.',
      evacuating: 'It takes no new writes, and its bytes move to other clusters.',
      removed: 'It left the settings after its last bytes had moved.',
      damaged: 'Its row is damaged. It serves reads, and takes no new writes until its drain is ended.',
    } as Words,
    workers: {
      'never-ran': 'never ran',
      failing: 'failing',
      stopped: 'stopped',
      silent: 'silent',
      busy: 'busy',
      idle: 'idle',
      pausing: 'pausing',
      paused: 'paused',
    } as Words,
    workerHints: {
      'never-ran': 'No process of this installation has run it. Check SVC_WORKERS.',
      failing: 'It failed and tries again after a pause.',
      stopped: 'Its process has ended it.',
      silent: 'Its process has not reported for half a minute.',
      busy: 'Its last run left work to do.',
      idle: 'Its last run left nothing to do.',
      pausing: 'An operator has paused it; its last run has not ended yet.',
      paused: 'An operator has paused it.',
    } as Words,
  },
  de: {
    clusters: {
      live: 'aktiv',
      pending: 'wartet',
      draining_readonly: 'nimmt nichts an',
      evacuating: 'wird geleert',
      removed: 'entfernt',
      damaged: 'beschädigt',
    },
    clusterHints: {
      live: 'Er bedient Lesezugriffe und nimmt seinen Anteil neuer Objekte.',
      pending: 'Er nimmt nichts Neues, bis er aktiviert wird.',
      draining_readonly: 'Er bedient Lesezugriffe und nimmt nichts Neues.',
      evacuating: 'Er nimmt nichts Neues, und seine Bytes ziehen auf andere Cluster um.',
      removed: 'Er verließ die Einstellungen, nachdem seine letzten Bytes umgezogen waren.',
      damaged:
        'Sein Eintrag ist beschädigt. Er bedient Lesezugriffe und nimmt nichts Neues, bis sein Leeren beendet wird.',
    },
    workers: {
      'never-ran': 'lief nie',
      failing: 'schlägt fehl',
      stopped: 'beendet',
      silent: 'stumm',
      busy: 'arbeitet',
      idle: 'untätig',
      pausing: 'hält an',
      paused: 'pausiert',
    },
    workerHints: {
      'never-ran': 'Kein Prozess dieser Installation hat ihn ausgeführt. SVC_WORKERS prüfen.',
      failing: 'Er ist fehlgeschlagen und versucht es nach einer Pause wieder.',
      stopped: 'Sein Prozess hat ihn beendet.',
      silent: 'Sein Prozess hat sich seit einer halben Minute nicht gemeldet.',
      busy: 'Sein letzter Lauf hat Arbeit übrig gelassen.',
      idle: 'Sein letzter Lauf hat nichts übrig gelassen.',
      pausing: 'Ein Operator hat ihn pausiert; sein letzter Lauf ist noch nicht zu Ende.',
      paused: 'Ein Operator hat ihn pausiert.',
    },
  },
});

const w = wordsOfStates;

const clusterTones: Readonly<Record<string, Tone>> = {
  live: 'good',
  pending: 'accent',
  draining_readonly: 'warn',
  evacuating: 'warn',
  removed: 'neutral',
  damaged: 'bad',
};

export const ClusterState = ({ state }: { readonly state: string }) => (
  <Chip tone={clusterTones[state] ?? 'neutral'} title={w.clusterHints[state]}>
    {w.clusters[state] ?? state}
  </Chip>
);

const workerTones: Readonly<Record<string, Tone>> = {
  failing: 'bad',
  silent: 'warn',
  stopped: 'warn',
  'never-ran': 'neutral',
  busy: 'accent',
  idle: 'good',
  pausing: 'warn',
  paused: 'warn',
};

/** @param title in place of what the state means, such as the last error */
export const WorkerState = ({
  state,
  title,
}: {
  readonly state: string;
  readonly title?: string | undefined;
}) => (
  <Chip tone={workerTones[state] ?? 'neutral'} title={title ?? w.workerHints[state]}>
    {w.workers[state] ?? state}
  </Chip>
);
