/**
 * The messages of the TiKV and PD protocols that this client uses: names, numbers and types are those of the wire; other fields are
 * ignored. Encoded and decoded by protobufjs, which only this file imports.
 *
 * Timestamps have 64 bits: `bigint` everywhere else, `{ low, high }` for protobufjs.
 */
import protobuf from 'protobufjs';

const source = `
syntax = "proto3";
message RegionEpoch { uint64 conf_ver = 1; uint64 version = 2; }
message Peer { uint64 id = 1; uint64 store_id = 2; }
message Region { uint64 id = 1; bytes start_key = 2; bytes end_key = 3; RegionEpoch region_epoch = 4; repeated Peer peers = 5; }
message Store { uint64 id = 1; string address = 2; int32 state = 3; }

message EpochNotMatch { repeated Region current_regions = 1; }
message NotLeader { uint64 region_id = 1; Peer leader = 2; }
message ServerIsBusy { string reason = 1; uint64 backoff_ms = 2; }
message Nothing {}
message RegionError {
  string message = 1; NotLeader not_leader = 2; Nothing region_not_found = 3; Nothing key_not_in_region = 4;
  EpochNotMatch epoch_not_match = 5; ServerIsBusy server_is_busy = 6; Nothing stale_command = 7; Nothing store_not_match = 8;
  Nothing max_timestamp_not_synced = 10; Nothing read_index_not_ready = 11; Nothing proposal_in_merging_mode = 12;
}

message LockInfo {
  bytes primary_lock = 1; uint64 lock_version = 2; bytes key = 3; uint64 lock_ttl = 4; uint64 txn_size = 5; int32 lock_type = 6;
  uint64 lock_for_update_ts = 7; bool use_async_commit = 8; uint64 min_commit_ts = 9; repeated bytes secondaries = 10;
}
message WriteConflict { uint64 start_ts = 1; uint64 conflict_ts = 2; bytes key = 3; bytes primary = 4; uint64 conflict_commit_ts = 5; }
message Deadlock { uint64 lock_ts = 1; bytes lock_key = 2; }
message TxnNotFound { uint64 start_ts = 1; bytes primary_key = 2; }
message CommitTsExpired { uint64 start_ts = 1; uint64 attempted_commit_ts = 2; bytes key = 3; uint64 min_commit_ts = 4; }
message KeyError {
  LockInfo locked = 1; string retryable = 2; string abort = 3; WriteConflict conflict = 4; Deadlock deadlock = 6;
  CommitTsExpired commit_ts_expired = 7; TxnNotFound txn_not_found = 8;
}

message Context { uint64 region_id = 1; RegionEpoch region_epoch = 2; Peer peer = 3; repeated uint64 resolved_locks = 13; bool is_retry_request = 20; }
message KvPair { KeyError error = 1; bytes key = 2; bytes value = 3; }
message Mutation { int32 op = 1; bytes key = 2; bytes value = 3; }

message GetRequest { Context context = 1; bytes key = 2; uint64 version = 3; }
message GetResponse { RegionError region_error = 1; KeyError error = 2; bytes value = 3; bool not_found = 4; }
message ScanRequest {
  Context context = 1; bytes start_key = 2; uint32 limit = 3; uint64 version = 4; bool key_only = 5; bool reverse = 6; bytes end_key = 7;
}
message ScanResponse { RegionError region_error = 1; repeated KvPair pairs = 2; KeyError error = 3; }
message PrewriteRequest {
  Context context = 1; repeated Mutation mutations = 2; bytes primary_lock = 3; uint64 start_version = 4; uint64 lock_ttl = 5;
  repeated int32 pessimistic_actions = 7; uint64 txn_size = 8; uint64 for_update_ts = 9; uint64 min_commit_ts = 10;
  bool use_async_commit = 11; repeated bytes secondaries = 12; bool try_one_pc = 13;
}
message PrewriteResponse { RegionError region_error = 1; repeated KeyError errors = 2; uint64 one_pc_commit_ts = 4; }
message PessimisticLockRequest {
  Context context = 1; repeated Mutation mutations = 2; bytes primary_lock = 3; uint64 start_version = 4; uint64 lock_ttl = 5;
  uint64 for_update_ts = 6; bool is_first_lock = 7; int64 wait_timeout = 8; bool return_values = 10; uint64 min_commit_ts = 11;
}
message PessimisticLockResponse {
  RegionError region_error = 1; repeated KeyError errors = 2; repeated bytes values = 5; repeated bool not_founds = 6;
}
message PessimisticRollbackRequest { Context context = 1; uint64 start_version = 2; uint64 for_update_ts = 3; repeated bytes keys = 4; }
message PessimisticRollbackResponse { RegionError region_error = 1; repeated KeyError errors = 2; }
message CommitRequest { Context context = 1; uint64 start_version = 2; repeated bytes keys = 3; uint64 commit_version = 4; }
message CommitResponse { RegionError region_error = 1; KeyError error = 2; uint64 commit_version = 3; }
message BatchRollbackRequest { Context context = 1; uint64 start_version = 2; repeated bytes keys = 3; }
message BatchRollbackResponse { RegionError region_error = 1; KeyError error = 2; }
message TxnHeartBeatRequest { Context context = 1; bytes primary_lock = 2; uint64 start_version = 3; uint64 advise_lock_ttl = 4; }
message TxnHeartBeatResponse { RegionError region_error = 1; KeyError error = 2; uint64 lock_ttl = 3; }
message CheckTxnStatusRequest {
  Context context = 1; bytes primary_key = 2; uint64 lock_ts = 3; uint64 caller_start_ts = 4; uint64 current_ts = 5;
  bool rollback_if_not_exist = 6; bool force_sync_commit = 7; bool resolving_pessimistic_lock = 8;
}
message CheckTxnStatusResponse {
  RegionError region_error = 1; KeyError error = 2; uint64 lock_ttl = 3; uint64 commit_version = 4; int32 action = 5; LockInfo lock_info = 6;
}
message CheckSecondaryLocksRequest { Context context = 1; repeated bytes keys = 2; uint64 start_version = 3; }
message CheckSecondaryLocksResponse {
  RegionError region_error = 1; KeyError error = 2; repeated LockInfo locks = 3; uint64 commit_ts = 4;
}
message ScanLockRequest { Context context = 1; uint64 max_version = 2; bytes start_key = 3; uint32 limit = 4; bytes end_key = 5; }
message ScanLockResponse { RegionError region_error = 1; KeyError error = 2; repeated LockInfo locks = 3; }
message ResolveLockRequest { Context context = 1; uint64 start_version = 2; uint64 commit_version = 3; repeated bytes keys = 5; }
message ResolveLockResponse { RegionError region_error = 1; KeyError error = 2; }

message BatchedRequest {
  oneof cmd {
    GetRequest Get = 1; ScanRequest Scan = 2; PrewriteRequest Prewrite = 3; CommitRequest Commit = 4;
    BatchRollbackRequest BatchRollback = 8; ScanLockRequest ScanLock = 9; ResolveLockRequest ResolveLock = 10;
    PessimisticLockRequest PessimisticLock = 23;
    PessimisticRollbackRequest PessimisticRollback = 24; CheckTxnStatusRequest CheckTxnStatus = 25; TxnHeartBeatRequest TxnHeartBeat = 26;
    CheckSecondaryLocksRequest CheckSecondaryLocks = 33;
  }
}
message BatchedResponse {
  oneof cmd {
    GetResponse Get = 1; ScanResponse Scan = 2; PrewriteResponse Prewrite = 3; CommitResponse Commit = 4;
    BatchRollbackResponse BatchRollback = 8; ScanLockResponse ScanLock = 9; ResolveLockResponse ResolveLock = 10;
    PessimisticLockResponse PessimisticLock = 23;
    PessimisticRollbackResponse PessimisticRollback = 24; CheckTxnStatusResponse CheckTxnStatus = 25; TxnHeartBeatResponse TxnHeartBeat = 26;
    CheckSecondaryLocksResponse CheckSecondaryLocks = 33;
  }
}
message BatchCommandsRequest { repeated BatchedRequest requests = 1; repeated uint64 request_ids = 2; }
message BatchCommandsResponse { repeated BatchedResponse responses = 1; repeated uint64 request_ids = 2; }

message RequestHeader { uint64 cluster_id = 1; }
message HeaderError { int32 type = 1; string message = 2; }
message ResponseHeader { uint64 cluster_id = 1; HeaderError error = 2; }
message Timestamp { int64 physical = 1; int64 logical = 2; }
message TsoRequest { RequestHeader header = 1; uint32 count = 2; }
message TsoResponse { ResponseHeader header = 1; uint32 count = 2; Timestamp timestamp = 3; }
message Member { string name = 1; uint64 member_id = 2; repeated string peer_urls = 3; repeated string client_urls = 4; }
message GetMembersRequest { RequestHeader header = 1; }
message GetMembersResponse { ResponseHeader header = 1; repeated Member members = 2; Member leader = 3; }
message GetRegionRequest { RequestHeader header = 1; bytes region_key = 2; }
message GetRegionResponse { ResponseHeader header = 1; Region region = 2; Peer leader = 3; }
message UpdateServiceGCSafePointRequest { RequestHeader header = 1; bytes service_id = 2; int64 TTL = 3; uint64 safe_point = 4; }
message UpdateServiceGCSafePointResponse { ResponseHeader header = 1; uint64 min_safe_point = 4; }
message UpdateGCSafePointRequest { RequestHeader header = 1; uint64 safe_point = 2; }
message UpdateGCSafePointResponse { ResponseHeader header = 1; uint64 new_safe_point = 2; }
message GetStoreRequest { RequestHeader header = 1; uint64 store_id = 2; }
message GetStoreResponse { ResponseHeader header = 1; Store store = 2; }
`;

/** A 64-bit number as protobufjs has it. */
export interface Wide {
  readonly low: number;
  readonly high: number;
}

export const toWide = (value: bigint): Wide => ({
  low: Number(value & 0xffff_ffffn) | 0,
  high: Number(value >> 32n) | 0,
});
/** An absent field is 0. */
export const fromWide = (value: Wide | undefined): bigint =>
  value === undefined ? 0n : (BigInt(value.high >>> 0) << 32n) | BigInt(value.low >>> 0);

export interface WirePeer {
  readonly id: Wide;
  readonly store_id: Wide;
}
interface WireEpoch {
  readonly conf_ver: Wide;
  readonly version: Wide;
}
export interface WireRegion {
  readonly id: Wide;
  readonly start_key?: Uint8Array;
  readonly end_key?: Uint8Array;
  readonly region_epoch: WireEpoch;
  readonly peers: readonly WirePeer[];
}
export interface RegionContext {
  readonly region_id: Wide;
  readonly region_epoch: WireEpoch;
  readonly peer: WirePeer;
  /** Transactions whose locks a read passes: they commit after it, or not at all. */
  readonly resolved_locks?: readonly Wide[];
  /** In a prewrite: keys that its transaction has not locked are checked for newer commits, too. */
  readonly is_retry_request?: boolean;
}
export interface RegionError {
  readonly message?: string;
  readonly not_leader?: { readonly leader?: WirePeer };
  readonly server_is_busy?: { readonly reason?: string; readonly backoff_ms?: Wide };
  readonly epoch_not_match?: { readonly current_regions?: readonly WireRegion[] };
  readonly region_not_found?: object;
  readonly key_not_in_region?: object;
  readonly store_not_match?: object;
  readonly stale_command?: object;
  readonly max_timestamp_not_synced?: object;
  readonly read_index_not_ready?: object;
  readonly proposal_in_merging_mode?: object;
}
export interface LockInfo {
  readonly primary_lock: Uint8Array;
  readonly lock_version: Wide;
  readonly key: Uint8Array;
  readonly lock_ttl?: Wide;
  readonly lock_type?: number;
  readonly use_async_commit?: boolean;
  readonly min_commit_ts?: Wide;
  readonly secondaries?: readonly Uint8Array[];
}
export interface KeyError {
  readonly locked?: LockInfo;
  readonly retryable?: string;
  readonly abort?: string;
  readonly conflict?: { readonly conflict_commit_ts?: Wide };
  readonly deadlock?: object;
  readonly commit_ts_expired?: { readonly min_commit_ts?: Wide };
  readonly txn_not_found?: object;
}
interface Pair {
  readonly error?: KeyError;
  readonly key: Uint8Array;
  readonly value?: Uint8Array;
}
export interface Mutation {
  readonly op: number;
  readonly key: Uint8Array;
  readonly value?: Uint8Array;
}

interface Answer {
  readonly region_error?: RegionError;
}
type One = Answer & { readonly error?: KeyError };
type Many = Answer & { readonly errors?: readonly KeyError[] };

/** The request of each command (its context is filled in when it is sent) and its response. */
interface Commands {
  Get: [{ key: Uint8Array; version: Wide }, One & { value?: Uint8Array; not_found?: boolean }];
  Scan: [
    {
      start_key: Uint8Array;
      end_key: Uint8Array;
      limit: number;
      version: Wide;
      reverse: boolean;
      key_only: boolean;
    },
    One & { pairs?: readonly Pair[] },
  ];
  Prewrite: [
    {
      mutations: readonly Mutation[];
      primary_lock: Uint8Array;
      start_version: Wide;
      lock_ttl: Wide;
      txn_size: Wide;
      for_update_ts: Wide;
      min_commit_ts: Wide;
      pessimistic_actions: readonly number[];
      try_one_pc?: boolean;
    },
    Many & { one_pc_commit_ts?: Wide },
  ];
  PessimisticLock: [
    {
      mutations: readonly Mutation[];
      primary_lock: Uint8Array;
      start_version: Wide;
      lock_ttl: Wide;
      for_update_ts: Wide;
      min_commit_ts: Wide;
      wait_timeout: Wide;
      return_values: boolean;
    },
    Many & { values?: readonly Uint8Array[]; not_founds?: readonly boolean[] },
  ];
  PessimisticRollback: [{ start_version: Wide; for_update_ts: Wide; keys: readonly Uint8Array[] }, Many];
  Commit: [{ start_version: Wide; keys: readonly Uint8Array[]; commit_version: Wide }, One];
  BatchRollback: [{ start_version: Wide; keys: readonly Uint8Array[] }, One];
  TxnHeartBeat: [{ primary_lock: Uint8Array; start_version: Wide; advise_lock_ttl: Wide }, One];
  CheckTxnStatus: [
    {
      primary_key: Uint8Array;
      lock_ts: Wide;
      caller_start_ts: Wide;
      current_ts: Wide;
      rollback_if_not_exist: boolean;
      force_sync_commit: boolean;
      resolving_pessimistic_lock: boolean;
    },
    One & { lock_ttl?: Wide; commit_version?: Wide; action?: number; lock_info?: LockInfo },
  ];
  CheckSecondaryLocks: [
    { start_version: Wide; keys: readonly Uint8Array[] },
    One & { locks?: readonly LockInfo[]; commit_ts?: Wide },
  ];
  ScanLock: [
    { start_key: Uint8Array; end_key: Uint8Array; max_version: Wide; limit: number },
    One & { locks?: readonly LockInfo[] },
  ];
  ResolveLock: [{ start_version: Wide; commit_version: Wide; keys: readonly Uint8Array[] }, One];
}
export type CommandName = keyof Commands;
export type Asked<C extends CommandName> = Commands[C][0];
export type Answered<C extends CommandName> = Commands[C][1];

const root = protobuf.parse(source, { keepCase: true }).root;

/** Encodes and decodes one message. Decoded fields that were not sent are absent, but for repeated ones. */
export interface MessageCodec<T> {
  encode(value: object): Buffer;
  decode(bytes: Uint8Array): T;
}

/** Without a copy: on Node it is a Buffer already. */
const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function messageCodec<T>(name: string): MessageCodec<T> {
  const type = root.lookupType(name);
  return {
    encode: (value) => asBuffer(type.encode(value).finish()),
    // Decoded messages have their defaults on the prototype: a field that was not sent is no own property.
    decode: (bytes) => type.decode(bytes) as unknown as T,
  };
}

/**
 * PD returns region boundaries in TiKV's own encoding: groups of eight bytes, each followed by a byte that says how many of them count,
 * so that encoded keys sort as the keys do.
 */
const group = 8;
const full = 0xff;

export function encodeKey(key: Uint8Array): Buffer {
  const groups = Math.floor(key.length / group) + 1;
  const encoded = Buffer.alloc(groups * (group + 1));
  for (let i = 0; i < groups; i += 1) {
    const piece = key.subarray(i * group, (i + 1) * group);
    encoded.set(piece, i * (group + 1));
    encoded[i * (group + 1) + group] = full - (group - piece.length);
  }
  return encoded;
}

/** The key of a boundary; a boundary inside a key's encoding decodes to the part that is present. */
export function decodeKey(encoded: Uint8Array): Buffer {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at + group < encoded.length; at += group + 1) {
    const padding = full - (encoded[at + group] as number);
    pieces.push(encoded.subarray(at, at + group - padding));
    if (padding > 0) break;
  }
  return Buffer.concat(pieces);
}
