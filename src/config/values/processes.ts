/** `SVC_PROCESSES`: a number, or one per core. */
import { fault, type Setting, value } from '../read/setting.ts';

const processesMax = 256;

export const processes = (fallback: string, doc: string): Setting<number | 'auto'> => ({
  kind: 'whole number or `auto`',
  doc,
  fallback,
  range: `[1, ${processesMax}]`,
  outside: 'refused',
  read: (given) => {
    if (given === 'auto') return value('auto' as const);
    if (!/^\d{1,6}$/.test(given)) return fault('is not a whole number or auto');
    const count = Number(given);
    return count >= 1 && count <= processesMax ? value(count) : fault(`is outside [1, ${processesMax}]`);
  },
});
