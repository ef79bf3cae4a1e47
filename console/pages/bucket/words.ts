import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';

export const w = words({
  en: {
    holds: (objects: number, size: string) => `${plural(objects, 'object', 'objects')}, ${size}`,
    owner: (name: string) => `owned by ${name}`,
  },
  de: {
    holds: (objects, size) => `${plural(objects, 'Objekt', 'Objekte')}, ${size}`,
    owner: (name) => `gehört ${name}`,
  },
});
