/** The storage classes of the public API: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html */

type StorageClass = {
  /** Its second name in `SVC_STORAGE_CLASSES`. */
  readonly alias?: string;
} & (
  | {
      /** Objects move away from it, and no transition of a lifecycle rule leads to it. */
      readonly rank: 0;
      readonly isArchive: false;
    }
  | {
      /** Objects move from a lower rank to a higher one, which is colder. */
      readonly rank: 1 | 2 | 3 | 4 | 5 | 6;
      /** Its content is read from a restored copy only. */
      readonly isArchive: boolean;
      /**
       * How access logs name the transition to it:
       * https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-and-other-bucket-config.html
       */
      readonly transitionOperation: string;
    }
);

const classes = {
  STANDARD: { alias: 'default', rank: 0, isArchive: false },
  REDUCED_REDUNDANCY: { rank: 0, isArchive: false },
  STANDARD_IA: {
    alias: 'standard-ia',
    rank: 1,
    isArchive: false,
    transitionOperation: 'S3.TRANSITION_SIA.OBJECT',
  },
  ONEZONE_IA: { rank: 3, isArchive: false, transitionOperation: 'S3.TRANSITION_ZIA.OBJECT' },
  INTELLIGENT_TIERING: { rank: 2, isArchive: false, transitionOperation: 'S3.TRANSITION_INT.OBJECT' },
  GLACIER: { alias: 'archive', rank: 5, isArchive: true, transitionOperation: 'S3.TRANSITION.OBJECT' },
  GLACIER_IR: { rank: 4, isArchive: false, transitionOperation: 'S3.TRANSITION_GIR.OBJECT' },
  DEEP_ARCHIVE: { rank: 6, isArchive: true, transitionOperation: 'S3.TRANSITION_GDA.OBJECT' },
} as const satisfies Readonly<Record<string, StorageClass>>;

/** Every one of them is stored and returned. */
export const storageClassNames = Object.keys(classes) as readonly (keyof typeof classes)[];

/** By the name of the public API. */
export const findStorageClass = (name: string): StorageClass | undefined =>
  Object.hasOwn(classes, name) ? classes[name as keyof typeof classes] : undefined;

/** The names by their alias. */
export const storageClassAliases: Readonly<Record<string, string>> = Object.fromEntries(
  storageClassNames.flatMap((name) => {
    const { alias }: StorageClass = classes[name];
    return alias === undefined ? [] : [[alias, name]];
  }),
);

/** The name in the public API of a class that a text gives by either of its names; undefined when there is none. */
export function findStorageClassName(text: string): string | undefined {
  const name = Object.hasOwn(storageClassAliases, text) ? storageClassAliases[text] : text;
  return name !== undefined && findStorageClass(name) !== undefined ? name : undefined;
}

/** Both names of a class; of an unknown one the text itself. */
export function listStorageClassNames(text: string): readonly string[] {
  const name = findStorageClassName(text);
  const alias = name === undefined ? undefined : findStorageClass(name)?.alias;
  if (name === undefined) return [text];
  return alias === undefined ? [name] : [name, alias];
}

export const isArchive = (name: string): boolean => findStorageClass(name)?.isArchive === true;

/** The classes that a transition can lead to, each colder than the one before. */
export const waterfall: readonly string[] = storageClassNames
  .filter((name) => classes[name].rank > 0)
  .sort((a, b) => classes[a].rank - classes[b].rank);

/** An object of a class that this version does not know is not moved: it may be colder than all others. */
export const isColder = (name: string, than: string): boolean =>
  (findStorageClass(name)?.rank ?? 0) > (findStorageClass(than)?.rank ?? Number.POSITIVE_INFINITY);

/** How access logs name the transition to a class; undefined where no transition leads to it. */
export function nameTransition(name: string): string | undefined {
  const found = findStorageClass(name);
  return found !== undefined && 'transitionOperation' in found ? found.transitionOperation : undefined;
}
