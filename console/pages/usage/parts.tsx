/** What the pages of usage and billing show alike: the count of requests, the line below a table, and the button that exports it. */
import { formatNumber } from '../../text/text.ts';
import { Button } from '../../ui/form.tsx';
import { formatCount } from '../../ui/values.tsx';
import { type Counters, type Feed, requestsOf } from './feed.ts';
import { w } from './words.ts';

export const ExportButton = ({ onClick }: { readonly onClick: () => void }) => (
  <Button icon="download" onClick={onClick}>
    {w.export}
  </Button>
);

/** The sum, with its parts as a hint. */
export const Requests = ({ of }: { readonly of: Counters }) => (
  <span
    class="number"
    title={w.requestsHint(
      formatNumber(of.requestsA),
      formatNumber(of.requestsB),
      formatNumber(of.requestsFree),
    )}
  >
    {formatCount(requestsOf(of))}
  </span>
);

/** How many days are closed, and whether there are more rows than were read. */
export const ClosedDays = ({ of: { rows, isCut } }: { readonly of: Feed<{ readonly day: string }> }) => (
  <p class="quiet card-line foot">
    {w.closed(new Set(rows.map(({ day }) => day)).size)} {isCut && w.cut(formatNumber(rows.length))}
  </p>
);

export const CutNote = ({ of: { rows, isCut } }: { readonly of: Feed<unknown> }) =>
  isCut ? <p class="quiet card-line foot">{w.cut(formatNumber(rows.length))}</p> : null;
