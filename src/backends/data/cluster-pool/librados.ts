/**
 * librados' functions through koffi, which is loaded when a cluster is opened: a gateway with other backends
 * starts where neither is installed.
 */
import type { KoffiFunc, LibraryHandle } from 'koffi';
import { installCommand } from '../../../base/optional-packages.ts';
import { crc32c } from '../../crypto/node.ts';
import { type Crc32c, DriverMissing } from './driver.ts';

/** An address in C's memory. */
export type Pointer = bigint | null;
type Out = BigUint64Array;
type Size = number;

/** The signatures that koffi cannot check, as Ceph's `rados/librados.h` has them. */
export interface Librados {
  create(cluster: Out, name: string, user: string, flags: number): number;
  readConf(cluster: Pointer, path: string | null): number;
  setConf(cluster: Pointer, name: string, value: string): number;
  connect: KoffiFunc<(cluster: Pointer) => number>;
  shutdown: KoffiFunc<(cluster: Pointer) => void>;
  lookUpPool: KoffiFunc<(cluster: Pointer, name: string) => number>;
  monCommand: KoffiFunc<
    (
      cluster: Pointer,
      commands: readonly string[],
      count: Size,
      input: null,
      inputSize: Size,
      output: Out,
      outputSize: Out,
      status: Out,
      statusSize: Out,
    ) => number
  >;
  freeBuffer(buffer: Pointer): void;
  openPool: KoffiFunc<(cluster: Pointer, id: number, io: Out) => number>;
  setNamespace(io: Pointer, namespace: string): void;
  requiresAlignment(io: Pointer, isRequired: Int32Array): number;
  requiredAlignment(io: Pointer, bytes: Out): number;
  closePool: KoffiFunc<(io: Pointer) => void>;
  statPool: KoffiFunc<(io: Pointer, stats: Out) => number>;
  createCompletion(argument: null, callback: null, completion: Out): number;
  isComplete(completion: Pointer): number;
  awaitCompletion: KoffiFunc<(completion: Pointer) => number>;
  returnValue(completion: Pointer): number;
  releaseCompletion(completion: Pointer): void;
  cancel(io: Pointer, completion: Pointer): number;
  createWrite(): Pointer;
  releaseWrite(op: Pointer): void;
  addCreate(op: Pointer, exclusive: number, category: null): void;
  addHints(op: Pointer, size: number, writeSize: number, hints: number): void;
  addWrite(op: Pointer, bytes: Uint8Array, length: Size, offset: number): void;
  addSetAttribute(op: Pointer, name: string, value: Uint8Array, length: Size): void;
  addCompareAttribute(op: Pointer, name: string, comparison: number, value: Uint8Array, length: Size): void;
  startWrite(op: Pointer, io: Pointer, completion: Pointer, name: string, time: null, flags: number): number;
  startRead(
    io: Pointer,
    name: string,
    completion: Pointer,
    into: Uint8Array,
    length: Size,
    offset: number,
  ): number;
  createRead(): Pointer;
  releaseRead(op: Pointer): void;
  addRead(op: Pointer, offset: number, length: Size, into: Uint8Array, got: Out, code: Out): void;
  addGetAttributes(op: Pointer, iterator: Out, code: Out): void;
  startReadOp(op: Pointer, io: Pointer, completion: Pointer, name: string, flags: number): number;
  nextAttribute(iterator: Pointer, name: Out, value: Out, length: Out): number;
  endAttributes(iterator: Pointer): void;
  addRemove(op: Pointer): void;
  listBegin(io: Pointer): Pointer;
  listEnd(io: Pointer): Pointer;
  isListEnd(io: Pointer, cursor: Pointer): number;
  freeCursor(io: Pointer, cursor: Pointer): void;
  list: KoffiFunc<
    (
      io: Pointer,
      start: Pointer,
      end: Pointer,
      count: Size,
      filter: null,
      filterSize: Size,
      items: Out,
      next: Out,
    ) => number
  >;
  freeList(count: Size, items: Out): void;
  /** libc's, which librados brings along. */
  copyMemory(into: Uint8Array, from: Pointer, length: Size): Pointer;
}

const p = 'void *';
type Signature = readonly [symbol: string, result: string, parameters: readonly string[]];

const signatures: Readonly<Record<keyof Librados, Signature>> = {
  create: ['rados_create2', 'int', [p, 'str', 'str', 'uint64']],
  readConf: ['rados_conf_read_file', 'int', [p, 'str']],
  setConf: ['rados_conf_set', 'int', [p, 'str', 'str']],
  connect: ['rados_connect', 'int', [p]],
  shutdown: ['rados_shutdown', 'void', [p]],
  lookUpPool: ['rados_pool_lookup', 'int64', [p, 'str']],
  monCommand: ['rados_mon_command', 'int', [p, 'str *', 'size_t', p, 'size_t', p, p, p, p]],
  freeBuffer: ['rados_buffer_free', 'void', [p]],
  openPool: ['rados_ioctx_create2', 'int', [p, 'int64', p]],
  setNamespace: ['rados_ioctx_set_namespace', 'void', [p, 'str']],
  requiresAlignment: ['rados_ioctx_pool_requires_alignment2', 'int', [p, p]],
  requiredAlignment: ['rados_ioctx_pool_required_alignment2', 'int', [p, p]],
  closePool: ['rados_ioctx_destroy', 'void', [p]],
  statPool: ['rados_ioctx_pool_stat', 'int', [p, p]],
  createCompletion: ['rados_aio_create_completion2', 'int', [p, p, p]],
  isComplete: ['rados_aio_is_complete', 'int', [p]],
  awaitCompletion: ['rados_aio_wait_for_complete', 'int', [p]],
  returnValue: ['rados_aio_get_return_value', 'int', [p]],
  releaseCompletion: ['rados_aio_release', 'void', [p]],
  cancel: ['rados_aio_cancel', 'int', [p, p]],
  createWrite: ['rados_create_write_op', p, []],
  releaseWrite: ['rados_release_write_op', 'void', [p]],
  addCreate: ['rados_write_op_create', 'void', [p, 'int', p]],
  addHints: ['rados_write_op_set_alloc_hint2', 'void', [p, 'uint64', 'uint64', 'uint32']],
  addWrite: ['rados_write_op_write', 'void', [p, p, 'size_t', 'uint64']],
  addSetAttribute: ['rados_write_op_setxattr', 'void', [p, 'str', p, 'size_t']],
  addCompareAttribute: ['rados_write_op_cmpxattr', 'void', [p, 'str', 'uint8', p, 'size_t']],
  startWrite: ['rados_aio_write_op_operate', 'int', [p, p, p, 'str', p, 'int']],
  startRead: ['rados_aio_read', 'int', [p, 'str', p, p, 'size_t', 'uint64']],
  createRead: ['rados_create_read_op', p, []],
  releaseRead: ['rados_release_read_op', 'void', [p]],
  addRead: ['rados_read_op_read', 'void', [p, 'uint64', 'size_t', p, p, p]],
  addGetAttributes: ['rados_read_op_getxattrs', 'void', [p, p, p]],
  startReadOp: ['rados_aio_read_op_operate', 'int', [p, p, p, 'str', 'int']],
  nextAttribute: ['rados_getxattrs_next', 'int', [p, p, p, p]],
  endAttributes: ['rados_getxattrs_end', 'void', [p]],
  addRemove: ['rados_write_op_remove', 'void', [p]],
  listBegin: ['rados_object_list_begin', p, [p]],
  listEnd: ['rados_object_list_end', p, [p]],
  isListEnd: ['rados_object_list_is_end', 'int', [p, p]],
  freeCursor: ['rados_object_list_cursor_free', 'void', [p, p]],
  list: ['rados_object_list', 'int', [p, p, p, 'size_t', p, 'size_t', p, p]],
  freeList: ['rados_object_list_free', 'void', ['size_t', p]],
  copyMemory: ['memcpy', p, [p, p, 'size_t']],
};

export interface Native {
  readonly lib: Librados;
  readonly crc32c: Crc32c;
  text(at: Pointer, length?: number): string;
}

/** @param name of the library; a test passes one that does not exist */
export async function loadLibrados(name = 'librados.so.2'): Promise<Native> {
  const koffi = await import('koffi').catch((cause: unknown) => {
    throw new DriverMissing(`the package koffi is not installed: run \`${installCommand(['koffi'])}\``, {
      cause,
    });
  });
  const library = open(name, () => koffi.load(name));
  const functions = Object.entries(signatures).map(([name, [symbol, result, parameters]]) => [
    name,
    library.func(symbol, result, [...parameters]),
  ]);
  return {
    // The one place where C's signatures become types.
    lib: Object.fromEntries(functions) as Librados,
    crc32c: cephCrc32c(koffi, library) ?? crc32c,
    text: (at, length) => (length === undefined ? koffi.decode.string(at) : koffi.decode.string(at, length)),
  };
}

/**
 * Ceph's own CRC32C function, which takes a quarter of the time. A variable points to it. It is not part of librados' interface, so it
 * may be missing one day.
 */
function cephCrc32c(
  { call, decode, proto }: typeof import('koffi'),
  library: LibraryHandle,
): Crc32c | undefined {
  try {
    const own: bigint = decode(library.symbol('ceph_crc32c_func'), 'void *');
    const type = proto('uint32', ['uint32', 'void *', 'uint32']);
    const crc: Crc32c = (bytes) => ~call(own, type, 0xffffffff, bytes, bytes.length) >>> 0;
    const probe = new TextEncoder().encode('123456789');
    return crc(probe) === crc32c(probe) ? crc : undefined;
  } catch {
    return undefined;
  }
}

function open<T>(name: string, load: () => T): T {
  try {
    return load();
  } catch (cause) {
    const cure = 'install librados2 of your distribution, or librados of the vendor';
    throw new DriverMissing(`${name} cannot be loaded; ${cure}`, { cause });
  }
}

/** Runs a function that may block on one of the runtime's threads. */
export const later = <T extends (...args: never[]) => unknown>(
  run: KoffiFunc<T>,
  ...args: Parameters<T>
): Promise<ReturnType<T>> =>
  new Promise((resolve, reject) => {
    // koffi does not hold what C is looking at: this function, which it holds, does.
    const pinned: unknown[] = [...args];
    const done = (error: unknown, result: ReturnType<T>): void => {
      pinned.length = 0;
      if (error === null || error === undefined) resolve(result);
      else reject(error as Error);
    };
    run.async(...args, done);
  });
