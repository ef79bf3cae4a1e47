/** The lifecycle configuration of a bucket, both versions of its rules; a document's shape is its XML's. */
export interface TagFilter {
  readonly Key: string;
  readonly Value: string;
}

interface LifecycleTag {
  readonly Key: string;
  /** Absent means the empty value. */
  readonly Value?: string;
}

export interface LifecycleFilter {
  readonly Prefix?: string;
  readonly Tag?: LifecycleTag;
  readonly ObjectSizeGreaterThan?: number;
  readonly ObjectSizeLessThan?: number;
  readonly And?: {
    readonly Prefix?: string;
    readonly Tag: readonly LifecycleTag[];
    readonly ObjectSizeGreaterThan?: number;
    readonly ObjectSizeLessThan?: number;
  };
}

export interface LifecycleRule {
  readonly ID?: string;
  readonly Status: 'Enabled' | 'Disabled';
  /** From the first version of the API, in place of the filter. */
  readonly Prefix?: string;
  readonly Filter?: LifecycleFilter;
  readonly Expiration?: {
    readonly Date?: string;
    readonly Days?: number;
    readonly ExpiredObjectDeleteMarker?: boolean;
  };
  readonly Transition: readonly {
    readonly Date?: string;
    readonly Days?: number;
    readonly StorageClass: string;
  }[];
  readonly NoncurrentVersionExpiration?: {
    readonly NoncurrentDays?: number;
    readonly NewerNoncurrentVersions?: number;
  };
  readonly NoncurrentVersionTransition: readonly {
    readonly NoncurrentDays?: number;
    readonly NewerNoncurrentVersions?: number;
    readonly StorageClass: string;
  }[];
  readonly AbortIncompleteMultipartUpload?: { readonly DaysAfterInitiation: number };
}

export interface Lifecycle {
  readonly Rule: readonly LifecycleRule[];
  /** Which small objects change their class: a header of the Put request. Absent means the first. */
  readonly minimumSize?: 'all_storage_classes_128K' | 'varies_by_storage_class';
  /** The length of a day in ms; never stored. Absent: 24 hours. */
  readonly dayMs?: number;
}
/** The conditions of a rule, from any of their places in the document. An absent condition is always met. */
export interface Conditions {
  readonly prefix: string;
  readonly tags: readonly TagFilter[];
  readonly sizeAbove: number | undefined;
  readonly sizeBelow: number | undefined;
}

export function readRuleFilter({ Filter, Prefix }: Pick<LifecycleRule, 'Filter' | 'Prefix'>): Conditions {
  const { And, Tag } = Filter ?? {};
  const from = And ?? Filter ?? {};
  return {
    prefix: from.Prefix ?? Prefix ?? '',
    tags: (And?.Tag ?? (Tag === undefined ? [] : [Tag])).map(({ Key, Value = '' }) => ({ Key, Value })),
    sizeAbove: from.ObjectSizeGreaterThan,
    sizeBelow: from.ObjectSizeLessThan,
  };
}

/** Storage classes in the order in which objects may move through them, each colder than the one before. */
export const waterfall: readonly string[] = [
  'STANDARD_IA',
  'INTELLIGENT_TIERING',
  'ONEZONE_IA',
  'GLACIER_IR',
  'GLACIER',
  'DEEP_ARCHIVE',
];
