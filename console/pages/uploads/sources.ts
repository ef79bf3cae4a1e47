/** Where files come from: a drop, the clipboard, a choice; and whether a file that is chosen again is the same. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';

/** What Chromium adds, and the compiler does not know. */
interface PermissionHandle {
  queryPermission(how: { readonly mode: 'read' }): Promise<PermissionState>;
  requestPermission(how: { readonly mode: 'read' }): Promise<PermissionState>;
}
type Handle = FileSystemFileHandle & Partial<PermissionHandle>;
interface Pickers {
  showOpenFilePicker?(how: { readonly multiple: boolean }): Promise<readonly FileSystemFileHandle[]>;
}
type DropItem = DataTransferItem & { getAsFileSystemHandle?(): Promise<FileSystemHandle | null> };

export interface Source {
  /** The path below the folder that was chosen; a name for a single file. */
  readonly path: string;
  readonly file: File;
  /** Reads the file again after the page was reloaded. */
  readonly handle?: FileSystemFileHandle;
}

/** Files of a drop or a folder that are read at a time. */
const filesMax = 100_000;

export class TooManyFiles extends Error {}

/** Files by the browser's dialog. @returns undefined where the browser has none that gives handles */
export function pickFiles(): Promise<readonly Source[]> | undefined {
  const picker = (globalThis as Pickers).showOpenFilePicker;
  if (picker === undefined) return undefined;
  return picker({ multiple: true }).then(
    (handles) =>
      Promise.all(
        handles.map(async (handle) => ({ path: handle.name, file: await handle.getFile(), handle })),
      ),
    (cause: unknown) => {
      // The dialog was closed.
      if (cause instanceof DOMException && cause.name === 'AbortError') return [];
      throw cause;
    },
  );
}

/** Files of an `<input type=file>`; those of a folder have their paths. */
export const chosenFiles = (list: FileList | null): readonly Source[] =>
  [...(list ?? [])].map((file) => ({
    path: file.webkitRelativePath === '' ? file.name : file.webkitRelativePath,
    file,
  }));

/** The files of a drop or of the clipboard, those of folders included. @throws TooManyFiles */
export async function droppedFiles(data: DataTransfer): Promise<readonly Source[]> {
  // The list is empty after the event has ended: all items are asked first.
  const items = [...data.items].filter(({ kind }) => kind === 'file') as readonly DropItem[];
  const asked = items.map((item) => ({
    handle: item.getAsFileSystemHandle?.().catch(() => null),
    entry: item.webkitGetAsEntry(),
    file: item.getAsFile(),
  }));
  const found: Source[] = [];
  for (const { handle, entry, file } of asked) {
    const by = await handle;
    if (by?.kind === 'file') await addHandle(found, by as FileSystemFileHandle, '');
    else if (by?.kind === 'directory') await addFolder(found, by as FileSystemDirectoryHandle, '');
    else if (entry !== null && entry !== undefined) await addEntry(found, entry);
    else if (file !== null) add(found, { path: file.name, file });
  }
  return found;
}

function add(found: Source[], source: Source): void {
  if (found.length >= filesMax) throw new TooManyFiles(String(filesMax));
  found.push(source);
}

const addHandle = async (found: Source[], handle: FileSystemFileHandle, above: string): Promise<void> =>
  add(found, { path: above + handle.name, file: await handle.getFile(), handle });

async function addFolder(found: Source[], folder: FileSystemDirectoryHandle, above: string): Promise<void> {
  for await (const child of folder.values()) {
    const path = `${above}${folder.name}/`;
    if (child.kind === 'file') await addHandle(found, child as FileSystemFileHandle, path);
    else await addFolder(found, child as FileSystemDirectoryHandle, path);
  }
}

/** Where the browser has no handles. */
async function addEntry(found: Source[], entry: FileSystemEntry): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    add(found, { path: entry.fullPath.replace(/^\//, ''), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader answers in batches until one is empty.
  for (;;) {
    const batch = await new Promise<readonly FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (batch.length === 0) return;
    for (const each of batch) await addEntry(found, each);
  }
}

/** What tells a file from another one. */
export interface FileMark {
  readonly size: number;
  readonly lastModified: number;
  /** SHA-256 of the first bytes. */
  readonly first: string;
}

const firstBytes = 65_536;

/** @throws NotReadableError where the file has changed since it was chosen, or is gone */
export const markOf = async (file: File): Promise<FileMark> => ({
  size: file.size,
  lastModified: file.lastModified,
  first: bytesToHex(sha256(new Uint8Array(await file.slice(0, firstBytes).arrayBuffer()))),
});

/** In what a file differs from the one that was marked. */
export async function differenceFrom(
  mark: FileMark,
  file: File,
): Promise<'size' | 'lastModified' | 'first' | undefined> {
  const names = ['size', 'lastModified', 'first'] as const;
  const other = await markOf(file);
  return names.find((name) => mark[name] !== other[name]);
}

/**
 * The file of a handle. Without `ask`, undefined where the browser would ask the user first, which it does only after a click.
 * @throws NotFoundError where the file is gone
 */
export async function fileOf(
  handle: FileSystemFileHandle,
  { ask }: { readonly ask: boolean },
): Promise<File | undefined> {
  const by: Handle = handle;
  const state = await (ask
    ? by.requestPermission?.({ mode: 'read' })
    : by.queryPermission?.({ mode: 'read' }));
  return state === 'granted' ? handle.getFile() : undefined;
}
