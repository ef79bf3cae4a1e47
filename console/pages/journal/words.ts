import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';

export const w = words({
  en: {
    lead: 'What changed in this bucket, by whom, the newest first.',
    kinds: {
      '': 'All changes',
      settings: 'Settings',
      writes: 'Writes',
      deletions: 'Deletions',
      refused: 'Refused',
    } as Readonly<Record<string, string>>,
    kind: 'Kind of change',
    actor: 'Caller',
    actorHint: 'ARN, access key or account',
    onlyActor: (name: string) => `Only changes by ${name}`,
    none: 'Nothing was changed.',
    noneHint: 'Every change is kept for the retention of the audit log.',
    noMatch: 'No change matches.',
    clear: 'Show all changes',
    keys: (count: number) => plural(count, 'key', 'keys'),
    by: 'by',
  },
  de: {
    lead: 'Was sich in diesem Bucket geändert hat und durch wen, das Neueste zuerst.',
    kinds: {
      '': 'Alle Änderungen',
      settings: 'Einstellungen',
      writes: 'Geschrieben',
      deletions: 'Gelöscht',
      refused: 'Abgelehnt',
    },
    kind: 'Art der Änderung',
    actor: 'Aufrufer',
    actorHint: 'ARN, Zugriffsschlüssel oder Konto',
    onlyActor: (name) => `Nur Änderungen durch ${name}`,
    none: 'Nichts wurde geändert.',
    noneHint: 'Jede Änderung bleibt so lange, wie das Audit-Log aufbewahrt wird.',
    noMatch: 'Keine Änderung passt.',
    clear: 'Alle Änderungen zeigen',
    keys: (count) => plural(count, 'Schlüssel', 'Schlüssel'),
    by: 'durch',
  },
});
