/** The settings of `SVC_KEY_PROVIDER=pkcs11`. */
import { integer, list } from '../read/kinds.ts';
import { fault, optional, value } from '../read/setting.ts';
import { filePath } from '../values/network.ts';

export const pkcs11Settings = {
  SVC_PKCS11_MODULE: optional(
    filePath('The PKCS#11 module of the security module, such as /usr/lib/softhsm/libsofthsm2.so.'),
  ),
  SVC_PKCS11_TOKENS: list({
    kind: 'comma list of token labels',
    doc: 'The tokens that hold the keys; a key is used in the first of them that is present and has it.',
    item: (given) =>
      /^[\x20-\x7e]{1,32}$/.test(given) ? value(given) : fault('is not a label of 1 to 32 ASCII characters'),
  }),
  SVC_PKCS11_PIN_FILE: optional(filePath('A file with the user PIN of the tokens.')),
  SVC_PKCS11_SESSIONS: integer({
    fallback: '2',
    range: ['1', '64'],
    doc: 'How many sessions a process opens with each token. As many calls run at a time, each on one of the four threads that Node has for files too (UV_THREADPOOL_SIZE).',
  }),
} as const;
