/** A part of the tab: what is configured, with a link to it, and below them its state. */
import type { ComponentChildren } from 'preact';
import type { AdminOperationName } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Card } from '../../ui/tabs.tsx';
import { w } from './words.ts';

export const everyMs = 30_000;

type Family = 'lifecycle' | 'replication' | 'notification' | 'inventory' | 'logging';

export interface NotificationRule {
  readonly Id?: string;
  readonly Event?: readonly string[];
  readonly Filter?: {
    readonly S3Key?: { readonly FilterRule?: readonly { readonly Name: string; readonly Value: string }[] };
  };
  readonly Topic?: string;
  readonly Queue?: string;
  readonly CloudFunction?: string;
}

export interface ReplicationRule {
  readonly Status?: string;
  readonly Destination?: { readonly Bucket?: string };
}

/** The parts of the documents that this tab shows. */
export interface Configurations {
  readonly lifecycle?: { readonly Rule?: readonly { readonly ID?: string; readonly Status?: string }[] };
  readonly replication?: { readonly Rule?: readonly ReplicationRule[] };
  readonly notification?: Readonly<
    Record<
      'TopicConfiguration' | 'QueueConfiguration' | 'CloudFunctionConfiguration',
      readonly NotificationRule[]
    >
  >;
  readonly inventory?: Readonly<Record<string, Inventory>>;
  readonly logging?: {
    readonly LoggingEnabled?: { readonly TargetBucket: string; readonly TargetPrefix: string };
  };
}

export interface Inventory {
  readonly IsEnabled?: boolean;
  readonly Schedule?: { readonly Frequency?: string };
}

export interface PartProps {
  readonly bucket: string;
  readonly configurations: Configurations;
  may(name: AdminOperationName): boolean;
}

interface SectionProps {
  readonly title: string;
  readonly bucket: string;
  readonly family: Family;
  /** What is configured, in words; undefined: nothing is. */
  readonly set: string | undefined;
  /** Whether the settings of the bucket may be opened. */
  readonly isLinked?: boolean;
  readonly actions?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** A part: its name with what is configured, a link to its configuration, and below them its state. */
export const Section = ({ title, bucket, family, set, isLinked = true, actions, children }: SectionProps) => (
  <Card
    title={
      <>
        {title} <Chip tone={set === undefined ? 'neutral' : 'good'}>{set ?? w.off}</Chip>
      </>
    }
    actions={
      <div class="actions">
        {actions}
        {isLinked && (
          <PageLink page="bucketSettings" params={{ bucket }} search={{ family }} class="button">
            {w.configure} <span class="visually-hidden">{title}</span>
          </PageLink>
        )}
      </div>
    }
  >
    {set === undefined && <p class="quiet card-line">{w.hints[family]}</p>}
    {children}
  </Card>
);
