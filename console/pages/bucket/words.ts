import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';

export const w = words({
  en: {
    holds: (objects: number, size: string) => `${plural(objects, 'object', 'objects')}, ${size}`,
    holdsVersions: (versions: number, size: string) => `${plural(versions, 'version', 'versions')}, ${size}`,
    owner: (name: string) => `owned by ${name}`,
  },
  de: {
    holds: (objects, size) => `${plural(objects, 'Objekt', 'Objekte')}, ${size}`,
    holdsVersions: (versions, size) => `${plural(versions, 'Version', 'Versionen')}, ${size}`,
    owner: (name) => `gehört ${name}`,
  },
});
