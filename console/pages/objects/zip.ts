/** Many objects as one ZIP file, built in the page while they arrive and written to a file that the user chooses. */
import { presign } from '../../storage/client.ts';
import type { StoredObject } from './listing.ts';
import { type NotDone, notDone } from './remove.ts';

/** Where the browser cannot write to a file, it collects the archive first. */
export const collectedMax = 2 * 1_073_741_824;
const linkSeconds = 300;

interface FileHandle {
  createWritable(): Promise<WritableStream<Uint8Array>>;
}
interface Picker {
  readonly showSaveFilePicker?: (options: { readonly suggestedName: string }) => Promise<FileHandle>;
}
const picker = globalThis as unknown as Picker;
export const canStream = picker.showSaveFilePicker !== undefined;

export interface Archive {
  readonly bucket: string;
  readonly prefix: string;
  readonly total: { readonly bytes: number };
  readonly pages: AsyncIterable<readonly StoredObject[]>;
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
  readonly onObject: (failed?: NotDone) => void;
}

/** @throws where a reply breaks off, or the file cannot be written: the archive is not complete then */
export async function saveArchive(archive: Archive): Promise<void> {
  const name = `${nameOf(archive)}.zip`;
  // The browser asks for the file only as long as it remembers the click.
  const file = await picker.showSaveFilePicker?.({ suggestedName: name });
  const { downloadZip } = await import('client-zip');
  const reply = downloadZip(filesOf(archive), { buffersAreUTF8: true });
  if (file !== undefined && reply.body !== null) {
    await reply.body.pipeTo(await file.createWritable(), { signal: archive.signal });
    return;
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await reply.blob());
  link.download = name;
  link.click();
  // The browser has taken the content over when the click returns.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const nameOf = ({ bucket, prefix }: Archive): string =>
  safeName(prefix.replace(/\/$/, '').split('/').at(-1) || bucket);

async function* filesOf({ bucket, prefix, pages, signal, onBytes, onObject }: Archive) {
  const taken = new Set<string>();
  for await (const page of pages)
    for (const { key, modified, size } of page) {
      // A marker of a folder has no content and no name of its own.
      if (key.endsWith('/') && size === 0) {
        onObject();
        continue;
      }
      const reply = await read(bucket, key, signal);
      if ('reason' in reply) onObject(reply);
      else {
        yield {
          name: pathIn(taken, key.slice(prefix.length)),
          input: counted(reply.body, onBytes),
          lastModified: new Date(modified),
        };
        onObject();
      }
    }
}

async function read(
  bucket: string,
  key: string,
  signal: AbortSignal,
): Promise<NotDone | { readonly body: ReadableStream<Uint8Array> | null }> {
  try {
    const reply = await fetch(await presign({ bucket, key, seconds: linkSeconds }), { signal });
    if (reply.ok) return { body: reply.body };
    await reply.body?.cancel();
    return { key, code: `HTTP ${reply.status}`, reason: reply.statusText };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return notDone(key, cause);
  }
}

async function* counted(body: ReadableStream<Uint8Array> | null, onBytes: (bytes: number) => void) {
  if (body === null) return;
  for await (const chunk of body) {
    onBytes(chunk.length);
    yield chunk;
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: no file system takes these.
const unsafe = /[\u0000-\u001f\u007f<>:"|?*\\\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const safeName = (part: string): string => (/^\.{1,2}$/.test(part) ? '_' : part.replace(unsafe, '_'));

/** A path that stays inside of the folder where the archive is unpacked, and that no other entry has. */
export function pathIn(taken: Set<string>, key: string): string {
  const path = key
    .split('/')
    .filter((part) => part !== '')
    .map(safeName)
    .join('/');
  const name = path === '' ? '_' : path;
  let unique = name;
  // A file system may not tell cases apart.
  for (let n = 2; taken.has(unique.toLowerCase()); n += 1) unique = `${name} (${n})`;
  taken.add(unique.toLowerCase());
  return unique;
}
