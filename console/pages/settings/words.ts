import { words } from '../../text/text.ts';

interface Version {
  readonly version: string;
  readonly runtime: string;
  readonly metadata: string;
  readonly data: string;
  readonly region: string;
}

export const w = words({
  en: {
    versionSentence: ({ version, runtime, metadata, data, region }: Version) =>
      `sluice ${version} on ${runtime}, metadata ${metadata}, data ${data}, region ${region}.`,
    bundle: 'Support bundle',
    log: 'Log',
    level: 'Level',
    levelHint: 'Of every process of this node, until it is restarted.',
    levelSaved: 'In force in every process of this node.',
    settings: 'Settings in force',
    name: 'Name',
    value: 'Value',
    source: 'From',
    meaning: 'Meaning',
    unset: 'unset',
    sources: { flag: 'flag', env: 'environment', default: 'default' },
  },
  de: {
    versionSentence: ({ version, runtime, metadata, data, region }) =>
      `sluice ${version} auf ${runtime}, Metadaten ${metadata}, Daten ${data}, Region ${region}.`,
    bundle: 'Support-Paket',
    log: 'Log',
    level: 'Stufe',
    levelHint: 'Für jeden Prozess dieses Knotens, bis er neu startet.',
    levelSaved: 'Gilt jetzt in jedem Prozess dieses Knotens.',
    settings: 'Geltende Einstellungen',
    name: 'Name',
    value: 'Wert',
    source: 'Aus',
    meaning: 'Bedeutung',
    unset: 'nicht gesetzt',
    sources: { flag: 'Schalter', env: 'Umgebung', default: 'Vorgabe' },
  },
});
