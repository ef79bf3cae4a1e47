/** Reads a trace of `strace -f -y`, and knows at each moment which writes are not flushed yet. */

/** A system call with its begin and end, because calls of several threads overlap. */
interface Span {
  readonly name: string;
  readonly args: string;
  readonly result: string;
  /** The positions in the trace at which it began and ended. */
  readonly from: number;
  readonly to: number;
}

/** What to trace, for `startServer({ runtime: … })`. */
export const tracing = (file: string): readonly string[] => [
  'strace',
  '-f',
  '-y',
  '-s',
  '64',
  '-o',
  file,
  '-e',
  'trace=openat,mkdir,mkdirat,rename,renameat,renameat2,fsync,fdatasync,msync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,read,recvfrom,recvmsg',
  process.execPath,
];

const callPattern = /^(\d+) +(\w+)\((.*?)(?:\) += (.*)| <unfinished \.\.\.>)$/;
const resumedPattern = /^(\d+) +<\.\.\. (\w+) resumed>(.*?)\) += (.*)$/;

export function spansOf(trace: string): Span[] {
  const spans: Span[] = [];
  const open = new Map<string, { readonly args: string; readonly from: number }>();
  for (const [at, line] of trace.split('\n').entries()) {
    const [, pid = '', name = '', args = '', result] = callPattern.exec(line) ?? [];
    if (name !== '' && result !== undefined) spans.push({ name, args, result, from: at, to: at });
    else if (name !== '') open.set(`${pid} ${name}`, { args, from: at });
    const [, by = '', resumed = '', more = '', outcome = ''] = resumedPattern.exec(line) ?? [];
    const begun = open.get(`${by} ${resumed}`);
    if (begun === undefined) continue;
    open.delete(`${by} ${resumed}`);
    spans.push({ name: resumed, args: begun.args + more, result: outcome, from: begun.from, to: at });
  }
  return spans.sort((a, b) => a.to - b.to);
}

export interface Exchange {
  /** Method and target. */
  readonly request: string;
  readonly status: number;
  /** Files (by path in the data directory) that were flushed between the request and its answer. */
  readonly flushed: readonly string[];
  /** Files and directories that were changed since the start and not flushed when the answer was written. */
  readonly unflushed: readonly string[];
}

const pathOf = (args: string): string | undefined => /^\d+<([^>]*)>/.exec(args)?.[1];
const fdOf = (text: string): string => /^(\d+)</.exec(text)?.[1] ?? '';
const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/'));

/**
 * Files that may be lost: marks and summaries are made again, temporary files have no owner, and locks, openings and
 * notes of where a process reads concern living processes.
 */
const isExpendable = (path: string): boolean =>
  /\.(open|sum)$/.test(path) ||
  path.includes('/temporary') ||
  /\/(lock\.mdb|openings|reading-[0-9a-f]+)$/.test(path);

/**
 * Reads a trace of one connection's requests. A write counts as flushed when a flush of its file began after the end of the write and
 * has ended. A new name counts as flushed when this holds for its directory.
 */
export function exchangesOf(trace: string, dataDir: string): Exchange[] {
  const exchanges: Exchange[] = [];
  /** The position in the trace at which the last change of each file or directory ended. */
  const changed = new Map<string, number>();
  const synced = new Set<string>();
  let flushed: string[] = [];
  let request = '';
  const isOurs = (path: string | undefined): path is string =>
    path === dataDir || path?.startsWith(`${dataDir}/`) === true;
  const relative = (path: string): string => path.slice(dataDir.length + 1) || '.';
  const flush = (path: string, from: number): void => {
    if ((changed.get(path) ?? -1) < from) changed.delete(path);
    flushed.push(relative(path));
  };

  for (const { name, args, result, from, to } of spansOf(trace)) {
    const path = pathOf(args);
    if (name === 'openat') {
      const opened = pathOf(result);
      const fd = fdOf(result);
      if (/O_D?SYNC/.test(args)) synced.add(fd);
      else synced.delete(fd);
      if (args.includes('O_CREAT') && args.includes('O_EXCL') && isOurs(opened) && !isExpendable(opened))
        changed.set(folderOf(opened), to);
    } else if (name.startsWith('mkdir') && result.startsWith('0')) {
      const [, made = ''] = /"([^"]*)"/.exec(args) ?? [];
      if (isOurs(folderOf(made))) changed.set(folderOf(made), to);
    } else if (name.startsWith('rename') && result.startsWith('0')) {
      const [source = '', target] = [...args.matchAll(/"([^"]*)"/g)].map(([, text = '']) => text);
      if (!isOurs(target)) continue;
      changed.set(folderOf(target), to);
      // A rename does not flush the content of the file.
      if (changed.delete(source)) changed.set(target, to);
    } else if (/^(fsync|fdatasync|msync)$/.test(name)) {
      if (isOurs(path) && result.startsWith('0')) flush(path, from);
    } else if (isOurs(path) && /write/.test(name)) {
      if (synced.has(fdOf(args))) flushed.push(relative(path));
      else changed.set(path, to);
    } else if (path?.startsWith('socket:') === true || path?.startsWith('TCP') === true) {
      const [, line] = /"((?:GET|PUT|POST|DELETE) \S+)/.exec(args) ?? [];
      if (/^re(ad|cv)/.test(name) && line !== undefined) {
        request = line;
        flushed = [];
      }
      const [, status] = /"HTTP\/1\.1 (\d{3})/.exec(args) ?? [];
      // The answer leaves when its write begins, not when it ends.
      if (status === undefined || request === '') continue;
      const unflushed = [...changed.keys()].filter((each) => !isExpendable(each)).map(relative);
      exchanges.push({ request, status: Number(status), flushed, unflushed });
      request = '';
    }
  }
  return exchanges;
}
