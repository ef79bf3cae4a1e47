import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';

export const w = words({
  en: {
    lead: 'Every change and every refusal, the newest first.',
    action: 'Action',
    resource: 'Resource',
    who: 'Caller',
    result: 'Result',
    key: 'Key',
    accessKey: 'Access key',
    account: 'Account',
    source: 'Address',
    count: 'Requests in this row',
    anonymous: 'anonymous',
    export: 'Export',
    verify: 'Verify the chain',
    intact: (hours: number) => `${plural(hours, 'hour is', 'hours are')} intact`,
    broken: (hour: string) => `broken at ${hour}`,
    none: 'No row matches.',
    anyResult: 'Any result',
    anyTime: 'Any time',
    period: 'Period',
    lastHours: (hours: number) =>
      hours < 48 ? `Last ${plural(hours, 'hour', 'hours')}` : `Last ${plural(hours / 24, 'day', 'days')}`,
    filters: { bucket: 'Bucket', action: 'Action', identity: 'Caller', requestId: 'Request id' },
  },
  de: {
    lead: 'Jede Änderung und jede Ablehnung, die neuesten zuerst.',
    action: 'Aktion',
    resource: 'Ressource',
    who: 'Aufrufer',
    result: 'Ergebnis',
    key: 'Schlüssel',
    accessKey: 'Zugriffsschlüssel',
    account: 'Konto',
    source: 'Adresse',
    count: 'Anfragen in dieser Zeile',
    anonymous: 'anonym',
    export: 'Exportieren',
    verify: 'Kette prüfen',
    intact: (hours) => `${plural(hours, 'Stunde ist', 'Stunden sind')} unversehrt`,
    broken: (hour) => `gebrochen bei ${hour}`,
    none: 'Keine Zeile passt.',
    anyResult: 'Jedes Ergebnis',
    anyTime: 'Jederzeit',
    period: 'Zeitraum',
    lastHours: (hours) =>
      hours < 48
        ? `Letzte ${plural(hours, 'Stunde', 'Stunden')}`
        : `Letzte ${plural(hours / 24, 'Tag', 'Tage')}`,
    filters: { bucket: 'Bucket', action: 'Aktion', identity: 'Aufrufer', requestId: 'Anfrage-Id' },
  },
});
