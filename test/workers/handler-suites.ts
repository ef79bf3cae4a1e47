/**
 * The suites of `test/handlers` that run in workerd, by the file that runs them, each with the tests that do not and
 * the reasons. `handler-suites.test.ts` says why the others do not run. The numbers of both may only fall.
 */

const reasons = {
  ports: 'it replaces ports of its gateway',
  telemetry: 'it reads the telemetry of its gateway',
  sleeps: 'its gateway sleeps, or measures durations, by the clock of the test',
  memory: 'it looks into the memory of its gateway',
  whole: 'the client here sends whole bodies, and reads whole replies',
  sends: 'an HTTP client cannot send its lengths, paths or headers',
  dots: 'the runtime rewrites dot segments (docs/workers.md)',
  allow: 'workerd leaves out a header without a value, here Allow',
  utf8: 'workerd decodes headers as UTF-8',
  methods: 'workerd refuses methods that it does not know',
  keys: 'there is no key provider on Workers',
  clusters: 'there is one cluster on Workers',
  targets: 'targets of events on Workers are webhooks and queues',
  folder: 'it opens two gateways over one folder',
  listener: 'a Worker has one listener',
} as const;

/** The tests of a suite that are skipped. */
export type Skips = Readonly<Record<string, string>>;
type Suites = Readonly<Record<string, Skips>>;

export const objectSuites = {
  'put-object': {
    'needs a length, and refuses what is longer than 5 GiB before a byte is read': reasons.sends,
    'a client that goes away leaves no object, and after gc no chunk': reasons.whole,
  },
  'get-object': {},
  'copy-object': {},
  'copy-bytes': {},
  conditions: {},
  multipart: {},
  'multipart-checksums': {},
  'complete-checksum': {},
  versioning: {},
  'list-objects': {},
  'list-object-versions': {},
  'list-uploads': {},
  'delete-objects': {
    'names a full disk as DeleteObject does': reasons.ports,
    'names a metadata store that is away as DeleteObject does': reasons.ports,
    'names damaged metadata as DeleteObject does': reasons.ports,
    'names a defect as DeleteObject does': reasons.ports,
    'other requests are served while many keys are authorized and deleted': reasons.sleeps,
  },
  checksums: {},
  'object-attributes': {},
  'object-tagging': {},
  'object-lock': {},
  'object-lock-configuration': {
    'a write that began before a default was set, and commits after, is held by it': reasons.ports,
  },
  'object-lock-model': {},
  'restore-object': {},
  expiration: {},
  'storage-class': {},
  'encryption-customer': {},
  'post-object': {
    'a form is a fresh write: while all clusters drain it is refused, and stores nothing': reasons.clusters,
    'a form sends ObjectCreated:Post': reasons.targets,
  },
  'form-file-name': {},
  'hostile-names': {
    'dots, slashes and odd characters are parts of keys': reasons.dots,
  },
  'header-bytes': {
    'bytes that are no UTF-8 are read as Latin-1': reasons.utf8,
  },
  'hoisted-headers': {},
  'query-parameters': {
    'is named in the DEBUG line of its request, without its value; parameters of the operation are not':
      reasons.telemetry,
  },
  addressing: {
    'readiness fails with the store': reasons.ports,
  },
  errors: {
    'a failing store is InternalError, with its cause in the log only': reasons.ports,
  },
  'last-writer': {},
  model: {},
  'force-empty': {
    'keeps versions that writers add meanwhile, and reports that something is left': reasons.ports,
    'a hold that is placed in the middle wins': reasons.ports,
    'a page that is being deleted while an operator cancels is the last one, also of other buckets that are cancelled':
      reasons.ports,
  },
  'lifecycle-worker': {},
  replicated: {},
  'whole-seconds': {},
  'parseable-errors': {},
  'left-out': {},
  'mfa-delete': {
    'a delete that began before MFA delete was turned on is refused, and nothing was deleted': reasons.ports,
  },
  'event-details': {
    'redriven events of an object arrive in their order, and before later ones that wait': reasons.telemetry,
  },
} as const satisfies Suites;

export const bucketSuites = {
  buckets: {
    'a CreateBucket that answers 200 finds the bucket in the list, also where its first creator died before listing it':
      reasons.ports,
  },
  'delete-bucket': {
    'a writer waits a bounded time for a DeleteBucket that reopens the bucket': reasons.ports,
    'a deleter that died leaves a bucket that opens again (fence 0)': reasons.sleeps,
    'a deleter that died leaves a bucket that opens again (fence 1)': reasons.sleeps,
  },
  'create-bucket-rights': {},
  'bucket-policy': {
    'may be allowed everything but the bucket policy: MethodNotAllowed where a policy allows it, else AccessDenied':
      reasons.allow,
    'policies of many buckets are held up to a bound of bytes, and each is obeyed': reasons.memory,
  },
  'bucket-tagging': {},
  'bucket-configurations': {
    'is unset, stored, returned unchanged, replaced and removed, twice, on workers': reasons.keys,
    'all of them outlive the process that took them': reasons.folder,
  },
  'bucket-inventory': {
    'an inventory with SSE-KMS is refused where no key provider is configured': reasons.keys,
  },
  'bucket-lifecycle': {},
  'configuration-rules': {
    'accepts a key of the key service': reasons.keys,
  },
  cors: {},
  acl: {},
  'anonymous-acl': {},
  ownership: {},
  'public-access-block': {},
  'requester-pays': {},
  website: {
    'a website serves pages, the index of a directory, and a redirect to a directory without its slash':
      reasons.sends,
  },
  'access-points': {
    'is reached by its alias in the path and in the host, and by the host that SDKs make of its ARN':
      reasons.allow,
    'is the source of a copy, by ARN and by alias': reasons.sends,
  },
  'access-point-requests': {},
  'access-log': {
    'requests to buckets without a log write nothing of it and read nothing for it': reasons.ports,
    'the line of an interrupted download has the bytes that were sent': reasons.whole,
  },
  'absent-objects': {},
  'application-sessions': {},
  'bare-principals': {},
  'denied-message': {},
  'disabled-users': {
    'another gateway on the same store refuses a disabled user with its next request': reasons.folder,
  },
  'explain-decision': {},
  'explain-session': {},
  'multipart-policy': {},
  tenants: {},
  quotas: {
    'the room of a commit with an unknown outcome is free again once the outcome is certain': reasons.ports,
    'commits that applied and were not answered count under the quota of the bucket': reasons.ports,
    'commits that applied and were not answered count under the quota of the user': reasons.ports,
    'a part on its way keeps its room while the room of a failed commit is freed': reasons.ports,
    'a write that commits while another one reads the counters of the bucket counts': reasons.ports,
    'a write that commits while another one reads the counters of the user counts': reasons.ports,
    'a refused write is refused before its body is read, and stores nothing': reasons.whole,
  },
  'user-quotas': {},
  'usage-updated-at': {},
  'iam-access-keys': {
    'that cannot be is unknown, like any other that is not there': reasons.sends,
  },
  'iam-groups': {},
  'iam-policies': {},
  'iam-roles': {},
  'iam-sessions': {},
  'iam-users': {},
  'iam-wire': {
    'an action that there is not, or none': reasons.methods,
    'an unsigned action, whose body is not read': reasons.whole,
  },
  'iam-mfa': {},
  'iam-simulate': {
    'a page that takes long ends early, and the next one continues': reasons.sleeps,
  },
  'iam-clean-up': {},
  'session-credentials': {},
  'import-access-key': { 'no user is called %2e%2e: the import is refused with 400': reasons.dots },
  audit: {
    'the row is written in the commit of the change, without a separate write': reasons.ports,
    'a request of many commits brings its row along until one has applied': reasons.ports,
    'a log that cannot be written does not undo what was done': reasons.ports,
    'actions of IAM leave one row that names what they are about, in the commit of what they did':
      reasons.ports,
    'of unknown callers beyond the limit of a minute are counted, in one row for each operation and error':
      reasons.telemetry,
    'of one account have a separate limit: its changes, and other accounts, keep their rows': reasons.sleeps,
  },
  'audit-keys': {
    'a process that dies within a DeleteObjects leaves the names of the keys that it may have deleted':
      reasons.ports,
  },
} as const satisfies Suites;

/** About the operator API, and what operators set, read and verify. */
export const operatorSuites = {
  'admin-access-points': {},
  'admin-accounts': {
    'another gateway on the same store refuses a suspended account with the next request': reasons.folder,
    'can be repeated when a commit fails before it applied': reasons.ports,
    'can be repeated when a commit fails after it applied': reasons.ports,
  },
  'admin-batch': {},
  'admin-bucket-policies': {
    'a Deny holds for one trace, dead letter or failed replication of the bucket that a request names by its id':
      reasons.ports,
  },
  'admin-buckets': {
    'the first page costs the same reads among 100 and among 2,000 buckets': reasons.ports,
    'a filter that lets nothing through reads a bounded number of rows for a page': reasons.ports,
  },
  'admin-configurations': {},
  'admin-contract': {},
  'admin-create-bucket': {},
  'admin-iam': {
    'PutIamPolicy, DeleteIamPolicy and PutIamRole change the account in one commit, which has the audit row':
      reasons.ports,
  },
  'admin-idempotency': {
    'forgets an Idempotency-Key after a day, and counts it no more': reasons.ports,
  },
  'admin-mfa-devices': {
    'a list reads the users of its devices, 16 at a time': reasons.ports,
  },
  'admin-named-resources': {},
  'admin-objects': {},
  'admin-policies': {},
  'admin-sessions': {
    'of strangers at other addresses lock no operator out, and slow the log-ins of the key down':
      reasons.sleeps,
  },
  'admin-system': {
    'GET /version names the backends': reasons.ports,
  },
  areas: {
    'keep to their listener where there are two': reasons.listener,
  },
  'audit-chain': {
    'a damaged row does not keep its hour and later ones from being sealed and removed': reasons.ports,
    'a request that outlasts its hour is recorded in the hour in which it ends': reasons.whole,
  },
  'audit-changes': {
    'of the level of the log': reasons.ports,
    'of the signing key of a bucket, without its secret': reasons.keys,
  },
  'audit-export-schemas': {},
  'audit-follow': {},
  'default-quotas': {
    'bucket-stats shows the fullest limits of buckets, accounts and users, and no more than SVC_BUCKETSTATS_TOPN':
      reasons.telemetry,
    'a creation of an account or a user that is refused stores no quota': reasons.ports,
  },
  'iam-audit': {
    'the row of a change is in its commit': reasons.ports,
  },
  'iam-transfer': {
    'the import of 10,000 accounts calls the store no more often for each than that of 1,000': reasons.ports,
  },
  'operator-listings': {},
  'quota-kinds': {
    'is refused before its body is read, by each quota': reasons.whole,
    'a body of unknown length is read no further than the room reaches, and leaves nothing': reasons.whole,
    'CompleteMultipartUpload: a store that holds the parts is not asked to complete them where there is no room':
      reasons.ports,
    'CompleteMultipartUpload of a replica: a store that holds the parts is not asked to complete them where there is no room':
      reasons.ports,
  },
  'quota-settings': {
    'a creation that another account was faster than counts no longer, and one whose outcome is unknown for ten minutes':
      reasons.ports,
  },
} as const satisfies Suites;

export const handlerSuites = { ...objectSuites, ...bucketSuites, ...operatorSuites };

/** About what a commit changes beside its row: they also run with the metadata in three objects. */
export const shardedSuites = [
  'put-object',
  'copy-object',
  'multipart',
  'versioning',
  'list-objects',
  'delete-objects',
  'conditions',
  'quotas',
] as const satisfies readonly (keyof typeof handlerSuites)[];

/** Why a test of a suite is skipped. */
export function findSkip(suite: string, title: string): string | undefined {
  const suites: Suites = handlerSuites;
  return suites[suite]?.[title];
}
