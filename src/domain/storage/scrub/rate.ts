/** The read rate of the scrub. */
import type { Config } from '../../../config.ts';

const defaultRate = 16 * 1024 * 1024;

/** In bytes per second; 0 means never. An upstream is scrubbed only when an operator set a rate, because its reads cost money. */
export const scrubRate = ({
  SVC_SCRUB_RATE: rate,
  SVC_DATA_BACKEND: backend,
}: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_DATA_BACKEND'>): number =>
  rate ?? (backend === 'upstream-store' ? 0 : defaultRate);
