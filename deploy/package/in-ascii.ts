/** A plugin of rolldown for what is loaded by Node: all files in ASCII. */
import type { Plugin } from 'rolldown';

/**
 * V8 stores a source in two bytes for each character where one of them is beyond Latin-1, as a few are in messages:
 * that would be a megabyte.
 */
export const inAscii: Plugin = {
  name: 'in-ascii',
  // After the minifier, which writes the characters themselves.
  generateBundle(_, files) {
    for (const file of Object.values(files))
      if (file.type === 'chunk') file.code = file.code.replace(/[^\0-\x7f]/g, escapeCodeUnit);
  },
};
const escapeCodeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
