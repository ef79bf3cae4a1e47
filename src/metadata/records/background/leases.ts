/** The record of a lease. */
import { table } from '../../../ports/metadata-store.ts';

/** `generation` grows with every new holder and fences the writes of former holders. */
export interface LeaseRow {
  readonly name: string;
  readonly holder: string;
  readonly generation: number;
  readonly expires: number;
  /** Names the process of the holder, where other processes of its machine can see whether it has ended. */
  readonly process?: string;
}
export const leases = table<LeaseRow>()({
  name: 'leases',
  kind: 'conditional',
  partition: ['name'],
  sort: [],
  columns: { name: 'text', holder: 'text', generation: 'int', expires: 'int', process: 'text' },
});
