/** The settings of `SVC_KEY_PROVIDER=transit`. */
import { choice, text } from '../read/kinds.ts';
import { optional } from '../read/setting.ts';
import { endpoint } from '../values/endpoint.ts';
import { filePath } from '../values/network.ts';

const path = {
  pattern: /^[A-Za-z0-9_-]{1,64}(\/[A-Za-z0-9_-]{1,64}){0,7}$/,
  otherwise: 'is not a path of letters, digits, "-", "_" and "/", such as transit',
} as const;
const name = {
  pattern: /^[\x21-\x7e]{1,512}$/,
  otherwise: 'is not 1 to 512 printable ASCII characters without spaces',
} as const;

export const transitSettings = {
  SVC_TRANSIT_ADDR: optional(
    endpoint('The address of OpenBao or Vault, such as https://bao.example.com:8200.'),
  ),
  SVC_TRANSIT_MOUNT: text({
    kind: 'path',
    fallback: 'transit',
    doc: 'Where the transit engine is mounted.',
    ...path,
  }),
  SVC_TRANSIT_NAMESPACE: optional(
    text({ kind: 'path', doc: 'The namespace of the engine and of the login.', ...path }),
  ),
  SVC_TRANSIT_AUTH: choice({
    of: ['token', 'approle', 'kubernetes'],
    fallback: 'token',
    doc: 'How this service logs in: with a token from a file, as an AppRole, or as a Kubernetes service account.',
  }),
  SVC_TRANSIT_AUTH_MOUNT: optional(
    text({
      kind: 'path',
      doc: 'Where the auth method is mounted; if unset, `approle` or `kubernetes`.',
      ...path,
    }),
  ),
  SVC_TRANSIT_TOKEN_FILE: optional(
    filePath('A file with the token of `SVC_TRANSIT_AUTH=token`; it is read again when the token ends.'),
  ),
  SVC_TRANSIT_ROLE_ID: optional(
    text({ kind: 'role id', doc: 'The role id of `SVC_TRANSIT_AUTH=approle`.', ...name }),
  ),
  SVC_TRANSIT_SECRET_ID_FILE: optional(
    filePath('A file with the secret id of `SVC_TRANSIT_AUTH=approle`; it is read at each login.'),
  ),
  SVC_TRANSIT_ROLE: optional(
    text({ kind: 'role', doc: 'The role of `SVC_TRANSIT_AUTH=kubernetes`.', ...name }),
  ),
  SVC_TRANSIT_JWT_FILE: {
    ...filePath(
      'The token of the service account, for `SVC_TRANSIT_AUTH=kubernetes`; it is read at each login.',
    ),
    fallback: '/var/run/secrets/kubernetes.io/serviceaccount/token',
  },
  SVC_TRANSIT_CA_FILE: optional(
    filePath('PEM certificates that are trusted for SVC_TRANSIT_ADDR, in place of the built-in ones.'),
  ),
} as const;
