/** The record of who leads. */
import { table } from '../../ports/metadata-store.ts';

/** Who leads. `generation` grows with every change of hands and fences what a former holder still does. */
export interface LeaseRow {
  readonly name: string;
  readonly holder: string;
  readonly generation: number;
  readonly expires: number;
}
export const leases = table<LeaseRow>()({
  name: 'leases',
  kind: 'conditional',
  partition: ['name'],
  sort: [],
  columns: { name: 'text', holder: 'text', generation: 'int', expires: 'int' },
});
