/** Settings of the console where the storage protocol has another address. */
import { list, text } from './read/kinds.ts';
import { fault, optional, type Read, value } from './read/setting.ts';

const form = /^https?:\/\/[^/?#@\s]+$/i;

/** As browsers write it: lower case, without the default port. */
function readOrigin(given: string): Read<string> {
  const origin = form.test(given) && URL.canParse(given) ? new URL(given).origin : undefined;
  return origin === undefined ? fault('is not an origin such as https://s3.example.com') : value(origin);
}

export const consoleSettings = {
  SVC_CONSOLE_STORAGE_URL: optional({
    ...text({
      kind: 'origin',
      doc: 'Where browsers reach the storage protocol, if not at the address of the console. With SVC_ADMIN_LISTEN the default is the host of the console with the port of SVC_LISTEN.',
    }),
    read: readOrigin,
  }),
  SVC_CONSOLE_ORIGINS: list({
    kind: 'comma list of origins',
    doc: 'Origins of consoles whose pages may read replies of the storage protocol, beside the one of SVC_ADMIN_LISTEN.',
    item: readOrigin,
  }),
};
