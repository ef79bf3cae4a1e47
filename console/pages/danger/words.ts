import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';

export const w = words({
  en: {
    objects: 'Objects and versions',
    bytes: 'Size',
    countedAt: 'Counted',
    empty: 'Empty the bucket',
    emptyText: 'Deletes all objects with all their versions, delete markers and open uploads.',
    lockText: 'Versions under a retention or a legal hold stay.',
    emptyAsk: (name: string) => `Empty ${name}?`,
    emptying: 'Emptying',
    cancel: 'Cancel',
    cancelling: 'Ends after the page that is being deleted.',
    emptied: (versions: number, markers: number, uploads: number) =>
      `Deleted: ${plural(versions, 'version', 'versions')}, ${plural(markers, 'delete marker', 'delete markers')}, ${plural(uploads, 'upload', 'uploads')}.`,
    kept: (count: number) => `${plural(count, 'version is', 'versions are')} held and stayed.`,
    damaged: (count: number) =>
      `${plural(count, 'row is', 'rows are')} damaged and stayed; the integrity check names them.`,
    isEmpty: 'Nothing was left.',
    isNotEmpty: 'Something is left, or was written meanwhile.',
    wasCancelled: 'An operator cancelled it.',
    owner: 'Change the owner',
    ownerNow: (name: string) => `The bucket belongs to ${name}. Another account gets it with its objects.`,
    newOwner: 'New owner',
    newOwnerHint: 'The id of an account.',
    objectsToo: 'The objects go to the new owner too',
    dropPolicy: 'Drop the policy of the bucket: it goes on to grant what it granted otherwise',
    ownerImpact: (name: string, objects: string, bytes: string) =>
      `${name} loses the bucket, with ${objects} objects of ${bytes}. Quotas and usage count for the new owner from now on. The new owner or an operator can give it back.`,
    ownerDone: (name: string) => `The bucket belongs to ${name} now.`,
    policyKept: 'Its policy stayed, and grants what it granted.',
    policyDropped: 'Its policy was dropped. It was:',
    reshard: 'More shards',
    reshardText: (shards: number) =>
      `The metadata of the bucket has ${plural(shards, 'shard', 'shards')}. More shards take more writes at a time; there cannot be fewer again.`,
    shards: 'Shards',
    reshardAsk: (name: string, shards: number) => `Give ${name} ${plural(shards, 'shard', 'shards')}?`,
    reshardDialog:
      'Rows move in the background while the bucket is in use. A write may wait for some tenths of a second.',
    resharding: 'Resharding',
    resharded: (from: number, to: number, rows: string) =>
      `Went from ${from} to ${plural(to, 'shard', 'shards')}, with ${rows} rows moved.`,
    delete: 'Delete the bucket',
    deleteText: 'Deletes the bucket with its configurations. It must be empty; open uploads are aborted.',
    deleteAsk: (name: string) => `Delete ${name}?`,
    notEmpty: (objects: string) =>
      `It holds ${objects} objects and versions, so it would be refused: empty it first.`,
    finished: 'Last run',
  },
  de: {
    objects: 'Objekte und Versionen',
    bytes: 'Größe',
    countedAt: 'Gezählt',
    empty: 'Bucket leeren',
    emptyText: 'Löscht alle Objekte mit allen Versionen, Löschmarkierungen und offenen Uploads.',
    lockText: 'Versionen unter Aufbewahrung oder rechtlicher Sperre bleiben.',
    emptyAsk: (name) => `${name} leeren?`,
    emptying: 'Leeren',
    cancel: 'Abbrechen',
    cancelling: 'Endet nach der Seite, die gerade gelöscht wird.',
    emptied: (versions, markers, uploads) =>
      `Gelöscht: ${plural(versions, 'Version', 'Versionen')}, ${plural(markers, 'Löschmarkierung', 'Löschmarkierungen')}, ${plural(uploads, 'Upload', 'Uploads')}.`,
    kept: (count) => `${plural(count, 'Version ist', 'Versionen sind')} gesperrt und blieben.`,
    damaged: (count) =>
      `${plural(count, 'Zeile ist', 'Zeilen sind')} beschädigt und blieben; die Integritätsprüfung nennt sie.`,
    isEmpty: 'Es blieb nichts übrig.',
    isNotEmpty: 'Es ist etwas übrig oder wurde inzwischen geschrieben.',
    wasCancelled: 'Ein Operator hat es abgebrochen.',
    owner: 'Besitzer ändern',
    ownerNow: (name) => `Der Bucket gehört ${name}. Ein anderes Konto erhält ihn mit seinen Objekten.`,
    newOwner: 'Neuer Besitzer',
    newOwnerHint: 'Die Id eines Kontos.',
    objectsToo: 'Auch die Objekte gehen an den neuen Besitzer',
    dropPolicy: 'Die Richtlinie des Buckets entfernen: sonst gewährt sie weiter, was sie gewährt hat',
    ownerImpact: (name, objects, bytes) =>
      `${name} verliert den Bucket mit ${objects} Objekten, ${bytes}. Kontingente und Nutzung zählen ab jetzt für den neuen Besitzer. Er oder ein Operator kann ihn zurückgeben.`,
    ownerDone: (name) => `Der Bucket gehört jetzt ${name}.`,
    policyKept: 'Seine Richtlinie blieb und gewährt, was sie gewährt hat.',
    policyDropped: 'Seine Richtlinie wurde entfernt. Sie war:',
    reshard: 'Mehr Shards',
    reshardText: (shards) =>
      `Die Metadaten des Buckets haben ${plural(shards, 'Shard', 'Shards')}. Mehr Shards nehmen mehr gleichzeitige Schreibzugriffe auf; weniger können es nicht wieder werden.`,
    shards: 'Shards',
    reshardAsk: (name, shards) => `${name} auf ${plural(shards, 'Shard', 'Shards')} aufteilen?`,
    reshardDialog:
      'Zeilen werden im Hintergrund verschoben, während der Bucket benutzt wird. Ein Schreiben kann einige Zehntelsekunden warten.',
    resharding: 'Aufteilung',
    resharded: (from, to, rows) =>
      `Von ${from} auf ${plural(to, 'Shard', 'Shards')}, mit ${rows} verschobenen Zeilen.`,
    delete: 'Bucket löschen',
    deleteText:
      'Löscht den Bucket mit seinen Konfigurationen. Er muss leer sein; offene Uploads werden abgebrochen.',
    deleteAsk: (name) => `${name} löschen?`,
    notEmpty: (objects) => `Er enthält ${objects} Objekte und Versionen und würde abgelehnt: zuerst leeren.`,
    finished: 'Letzter Lauf',
  },
});
