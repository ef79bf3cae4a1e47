/** A setting that names the origin of a server. */
import { text } from '../read/kinds.ts';
import { fault, type Setting, value } from '../read/setting.ts';
import { isEndpoint } from './upstreams.ts';

export const endpoint = (doc: string): Setting<string> => ({
  ...text({ kind: 'URL', doc }),
  read: (given) =>
    isEndpoint(given)
      ? value(new URL(given).origin)
      : fault('is not an http or https address without a path, such as https://keys.example.com:8200'),
});
