import { words } from '../../text/text.ts';

/** The words about storage classes, which the overview shows too. */
export const classWords = words({
  en: {
    classes: 'Storage classes',
    class: 'Class',
    pool: 'Pool',
    unpinned: 'any',
    objects: 'Objects',
    bytes: 'Bytes',
    share: 'Share',
    sampled: 'Sampled',
    notSampled: 'The first sample is not finished yet.',
    noClasses: 'No object is stored yet.',
  },
  de: {
    classes: 'Speicherklassen',
    class: 'Klasse',
    pool: 'Pool',
    unpinned: 'beliebig',
    objects: 'Objekte',
    bytes: 'Bytes',
    share: 'Anteil',
    sampled: 'Erhoben',
    notSampled: 'Die erste Erhebung ist noch nicht fertig.',
    noClasses: 'Noch ist kein Objekt gespeichert.',
  },
});
