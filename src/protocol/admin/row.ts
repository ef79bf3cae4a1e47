/** A row of the operator API's table, and the parts of schemas that several rows share. */
import {
  type JsonFields,
  type JsonReader,
  jsonCount,
  jsonInteger,
  jsonOptional,
  jsonText,
} from '../formats/json.ts';

export interface AdminOperation {
  /** Method and path below `/admin/v1`. A `:name` in the path is a parameter. */
  readonly on: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`;
  /** One sentence, for the reference, OpenAPI and `sluice admin --help`. */
  readonly doc: string;
  /** Parameters of the query, read from text by the same readers as bodies. Others are refused. */
  readonly query?: JsonFields;
  /** Absent: the request has no body, or `{}`. */
  readonly body?: JsonReader<unknown>;
  /** The longest body in bytes; absent: `bodyMaxDefault`. */
  readonly bodyMax?: number;
  /** Absent: the reply has no body, or one that is not JSON (`media`). */
  readonly reply?: JsonReader<unknown>;
  /** Default: 200 with a reply, else 204. The first is the usual one. */
  readonly status?: number | readonly number[];
  /** Media types of a reply that is not JSON. */
  readonly media?: readonly string[];
  /** The reply is the state of a configuration: it has an ETag. */
  readonly tagged?: true;
  /** A write of a configuration: it takes If-Match with the ETag of the GET, and If-None-Match: *. */
  readonly conditional?: true;
  /** The reply has a secret that is shown only once. */
  readonly secret?: true;
  /** The body has a secret: not even its hash is kept. */
  readonly takesSecret?: true;
  /** The operation changes nothing, whatever its method. */
  readonly reads?: true;
  /** It is audited although it changes nothing. */
  readonly audited?: true;
  /** Fields of the state whose old and new values the audit row has, where they differ. Never a secret; a test plants some. */
  readonly records?: readonly string[];
  /** Fields whose texts the audit row has by their SHA-256 and length, such as policy documents. */
  readonly digests?: readonly string[];
  /** By field of the query or body, or parameter of the path: the resource that it names beside the path of the operation. */
  readonly names?: Readonly<Record<string, NamedResource | NoResource>>;
  /**
   * By list of the reply: the resources that an entry is about, as in `NamedResource.path`, with the fields of the entry. Entries of
   * resources that a Deny of the operation covers are left out.
   */
  readonly lists?: Readonly<Record<string, readonly string[]>>;
  /**
   * Callers of other accounts may call it too, for what is theirs, where their own policies allow it: the field names a bucket of their
   * account, or their account. `callers`: fields that name a caller by its access key or ARN, where they are given; it is of their
   * account too.
   */
  readonly tenants?:
    | { readonly bucket: string; readonly callers?: readonly string[] }
    | { readonly account: string };
  /** It is about the cookie of a browser, so programs that sign their requests have no use for it. */
  readonly cookie?: true;
  /** Its words in `sluice admin`, where the path does not distinguish it from another operation. */
  readonly command?: string;
  /** Who may call it: `anyone`; `known`, every caller that is authenticated. Absent: whom the policies allow. */
  readonly callers?: 'anyone' | 'known' | undefined;
}

export type AdminRows = Readonly<Record<string, AdminOperation>>;

/** Unix seconds. */
export const seconds = /* @__PURE__ */ jsonInteger({
  min: 0,
  max: Number.MAX_SAFE_INTEGER,
  doc: 'Unix seconds',
});
export const isoTime = /* @__PURE__ */ jsonText({ max: 40, doc: 'a time such as 2026-01-31T12:00:00Z' });
/** A moment in a request: it is read by the handler, which compares it with others. */
export const moment = /* @__PURE__ */ jsonText({
  max: 40,
  pattern: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/,
  must: 'a time such as 2026-01-31T12:00:00Z',
});
/** Counts by name. */
export const count = jsonCount;
/** Texts of replies, such as errors of targets. */
export const longText = /* @__PURE__ */ jsonText({ max: 65_536 });
export const bucketName = /* @__PURE__ */ jsonText({ max: 255 });

/** Entries of a page, unless the request says otherwise. */
export const pageDefault = 1_000;
export const pagingBy = (entries: number) => ({
  limit: jsonOptional(
    jsonInteger({
      min: 1,
      max: 1_000,
      doc: `Entries of a page; ${entries === 1_000 ? '1,000' : entries} unless given.`,
    }),
  ),
  after: jsonOptional(jsonText({ max: 4096, doc: 'The `next` of the page before.' })),
});
/** Every list that has pages takes these; its reply has `next` where more follows. */
export const paging = /* @__PURE__ */ pagingBy(pageDefault);
export const next = /* @__PURE__ */ jsonOptional(
  /* @__PURE__ */ jsonText({ max: 4096, doc: 'Present where more follows: give it as `after`.' }),
);

/** Of entries that a reader follows: `next` is there also where nothing more is known yet. */
export const following = {
  limit: jsonOptional(jsonInteger({ min: 1, max: 1_000, doc: 'Entries; 100 unless given.' })),
  after: jsonOptional(
    jsonText({
      max: 16_384,
      doc: 'The `next` of the page before: what came since. Absent: the newest entries.',
    }),
  ),
};

/**
 * What entries are about, for `lists` of which the storage protocol has a listing too (`handlers/service.ts`): it
 * leaves out the same entries.
 */
export const auditAbout = ['buckets/{resource.bucket}', 'accounts/{resource.account}', 'accounts/{account}'];
export const lettersAbout = ['buckets/{bucket}', 'notify/targets/{target}'];

/**
 * What rows about a bucket's configurations record. Documents may have texts in which people write anything, such as tags: the audit row
 * has their digests.
 */
export const configurationFields = { records: ['versioning'], digests: ['configuration'] } as const;

/** What rows of the IAM protocol record: the fields that the operations on accounts record, whichever of them an action changes. */
export const iamFields = {
  records: [
    ...['name', 'path', 'status', 'accessKeys', 'users', 'policies', 'boundary', 'devices'],
    ...['sessionSeconds', 'defaultVersion'],
  ],
  digests: ['trust', 'document', 'inlinePolicies'],
} as const;

// The resources that a request to the operator API names beside the path of its operation: in its query, in its body, or in its path by a
// second name. Policies about these resources hold for the request too (docs/security.md, "Names in bodies").

/**
 * What policies must say about the resource. A Deny of it refuses the request, whatever the rule.
 * - `scope`: the request is limited to it, so that an Allow must cover it, and need not cover the operation's own path.
 * - `part`: an Allow must cover it and the operation's own path.
 * - `alias`: another name of the operation's own path; an Allow of either is enough.
 * - `mention`: an Allow of the operation's own path is enough.
 */
export type ResourceRule = 'scope' | 'part' | 'alias' | 'mention';

export interface NamedResource {
  /**
   * The resource in policies, below `arn:aws:admin:::`. `{field}` stands for a parameter of the path or query or a field of the body,
   * `{own}` for the caller's account, `{a|b}` for the first of two that the request has, and `{field.view}` for what a value leads to:
   * `account` (the account of an ARN or an access key), `name` (the name in an ARN), `bucket` (of a resource in the
   * audit log), `peer` (of a destination), `keys` (the names of a map), `accounts` (the `account` of each entry of a
   * list). A path of which the request lacks a field is not checked.
   */
  readonly path: string;
  readonly rule: ResourceRule;
}

/** A field that has the name of a resource, but names none of this installation, or none that policies know. */
export interface NoResource {
  readonly noResource: string;
}

const ruled =
  (rule: ResourceRule) =>
  (path: string): NamedResource => ({ path, rule });

export const scope = ruled('scope');
export const part = ruled('part');
export const alias = ruled('alias');
export const mention = ruled('mention');
export const noResource = (why: string): NoResource => ({ noResource: why });
