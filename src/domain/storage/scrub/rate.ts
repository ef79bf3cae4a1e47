/** How fast the scrub reads. */
import type { Config } from '../../../config.ts';

const defaultRate = 16 * 1024 * 1024;

/** Bytes per second; 0: never. Reading from an upstream costs money, so that it is scrubbed only where an operator set a rate. */
export const scrubRate = ({
  SVC_SCRUB_RATE: rate,
  SVC_DATA_BACKEND: backend,
}: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_DATA_BACKEND'>): number =>
  rate ?? (backend === 'upstream-store' ? 0 : defaultRate);
