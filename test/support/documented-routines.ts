/** The shell commands of docs/operations and docs/status.md: which block is run how, by `test/runtimes/documented-routines.test.ts`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
/** The blocks of a page, without the indentation of a list that they stand in. */
function blocksOf(page: string): readonly string[] {
  const text = readFileSync(join(root, 'docs', page), 'utf8');
  return [...text.matchAll(/^( *)```sh\n([\s\S]*?)^ *```/gm)].map(([, indent = '', block = '']) =>
    block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

/** The block of a routine, by its key in `routines`. */
export function blockOf(name: string): string | undefined {
  const [page = '', beginning = ''] = name.split(/: (.*)/s);
  return blocksOf(page).find((block) => block.startsWith(beginning));
}

export interface Routine {
  /** What the page presupposes. */
  readonly before?: string;
  /** What shows that the commands did something. */
  readonly after?: string;
  /** Texts of the page that stand for values, and shell text in place of them; each must occur. */
  readonly replaced?: Readonly<Record<string, string>>;
  /** Whose keys the AWS CLI uses, and where. */
  readonly aws?: 'alice' | 'far';
  /** What the last command prints, or any. */
  readonly prints?: RegExp;
  /** It waits for a minute, in which the other routines run. */
  readonly isLong?: boolean;
}

/** `sluice health` reads the settings of the gateway, which a test has at another address. */
const ofEndpoint = '--wait=2m --listen=$(echo $SLUICE_ENDPOINT | cut -c8-)';

/** Requests that never end are not among the commands that run here; test/runtimes/cli-admin.test.ts follows some. */
export const endless = /^sluice admin \w+ --follow.*\n/gm;

/**
 * By the page and the beginning of a block. Other tests run the blocks of keys.md (`documented-setup`, `cli-bucket-secret`), of
 * questions.md (`observability`) and of nodes.md (`cli-compact`).
 */
export const routines: Readonly<Record<string, Routine>> = {
  'operations/accounts.md: sluice admin accounts create': { prints: /carol/ },
  'operations/accounts.md: sluice admin accounts users set': {
    before: [
      'sluice admin accounts create --account erin',
      'sluice admin accounts users create erin --name ann',
      `echo '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}' >read-reports.json`,
    ].join('\n'),
    replaced: { carol: 'erin' },
  },
  'operations/backup.md: npm run sluice -- backup': {
    before: 'export SVC_POOL_CLUSTERS=a,b',
    replaced: { 'npm run sluice --': 'sluice', '/backups/sluice': '$PWD/backup', './data': '$DATA' },
  },
  'operations/command-line.md: export SLUICE_ENDPOINT': {
    replaced: {
      'export SLUICE_ENDPOINT=http://localhost:9000 SLUICE_ACCESS_KEY=… SLUICE_SECRET_KEY=…\n': '',
    },
    prints: /deregisterReady/,
    isLong: true,
  },
  "operations/events.md: SVC_NOTIFY_TARGETS='[{": { aws: 'alice' },
  "operations/events.md: SVC_NOTIFY_TARGETS='[\n": {
    replaced: { SVC_NOTIFY_TARGETS: 'export SVC_NOTIFY_TARGETS', '…': 'secret' },
    after: 'sluice config',
    prints: /SVC_NOTIFY_TARGETS +\*+ +env/,
  },
  'operations/operators.md: curl -s -c cookies': {
    replaced: {
      '"accessKey":"KEY","secretKey":"SECRET"': `"accessKey":"'$SLUICE_ACCESS_KEY'","secretKey":"'$SLUICE_SECRET_KEY'"`,
      'http://127.0.0.1:9000/admin/v1/session\ncurl -s -b cookies http://127.0.0.1:9000':
        '$SLUICE_ENDPOINT/admin/v1/session | tee reply\ncurl -s -b cookies $SLUICE_ENDPOINT',
      TOKEN: `'$(grep -o '"csrfToken":"[^"]*' reply | cut -d'"' -f4)'`,
      'http://127.0.0.1:9000': '$SLUICE_ENDPOINT',
    },
    prints: /"clusters":\[/,
  },
  'operations/quotas.md: sluice admin buckets quota set': {
    before: 'sluice admin accounts create --account fay',
    replaced: { carol: 'fay' },
    after: 'sluice admin buckets quota get photos',
    prints: /1000000/,
  },
  'operations/quotas.md: sluice admin quotas defaults': { prints: /settings/ },
  'operations/quotas.md: sluice admin accounts limits set': {
    before: 'sluice admin accounts create --account dora',
    replaced: { carol: 'dora' },
    prints: /dora[\s\S]*photos/,
  },
  'operations/replication.md: export AWS_ENDPOINT_URL': {
    aws: 'far',
    replaced: {
      'https://far.example.com': '$FAR',
      'aws iam create-access-key --user-name near':
        'aws iam create-access-key --user-name near | tee near.json',
    },
  },
  'operations/replication.md: sluice admin replication peers set': {
    before: `grep -o '"SecretAccessKey": "[^"]*' near.json | cut -d'"' -f4 >secret-key`,
    replaced: {
      'https://far.example.com': '$FAR',
      'AKIA…': `$(grep -o '"AccessKeyId": "[^"]*' near.json | cut -d'"' -f4)`,
    },
    prints: /remove +passed|"state": ?"passed"|passed/,
  },
  'operations/replication.md: aws iam create-role': { aws: 'alice' },
  'operations/upgrade.md: sluice admin status': {
    before: 'export SVC_POOL_CLUSTERS=a,b',
    // It ends with 1 where something is wrong, as it may be here.
    replaced: {
      'sluice admin status ': 'sluice admin status || true ',
      './data': '$DATA',
      '/backups': '$PWD',
    },
    prints: /backup of /,
  },
  // The tools of the system are replaced; the commands of the gateway run.
  'operations/upgrade.md: apt install': {
    before: 'apt() { test "$1" = install; }',
    replaced: { 'sluice admin status ': 'sluice admin status || true ', '--wait=2m': ofEndpoint },
    prints: /readyz\?need=reads: /,
  },
  'operations/upgrade.md: for node in': {
    before: 'apt() { test "$1" = install; }\nscp() { test $# = 2; }\nssh() { eval "$2"; }',
    replaced: { 'sluice admin status ': 'sluice admin status || true ', '--wait=2m': ofEndpoint },
    prints: /(?:\S+readyz\?need=reads: [^\n]*\n){3}/,
  },
  'operations/upgrade.md: sluice restore': {
    before: 'export SVC_POOL_CLUSTERS=a,b',
    replaced: { '/backups': '$PWD', './restored': './before-upgrade' },
    prints: /all is well/,
  },
  'operations/workers.md: sluice admin workers pause': {},
  'operations/workers.md: sluice admin tasks': {
    before: 'aws s3api create-bucket --bucket spare',
    replaced: { 'force-empty photos': 'force-empty spare' },
    isLong: true,
  },
  'status.md: sluice admin requests': {},
  'status.md: sluice admin logs': {},
};
