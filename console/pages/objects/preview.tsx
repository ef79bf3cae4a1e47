/** A preview of an object in a sandboxed frame: a picture, sound or film by its address, texts and tables by their first bytes. */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'preact/hooks';
import { presign, storage } from '../../storage/client.ts';
import { useStorage } from '../../storage/queries.ts';
import { t } from '../../text/text.ts';
import { Empty, Reading } from '../../ui/states.tsx';
import { formatBytes } from '../../ui/values.tsx';
import { nameOf, visible } from './listing.ts';
import {
  csvRowsMax,
  documentUrl,
  imageBody,
  mediaBody,
  readCsv,
  tableBody,
  textBody,
} from './preview-document.ts';
import { wordsOfPreviews as w } from './words.ts';

const kib = 1_024;
const mib = 1_048_576;
const textMax = 256 * kib;
const jsonMax = mib;
const wholeMax = 32 * mib;
const linkSeconds = 900;

type Kind = 'image' | 'video' | 'audio' | 'pdf' | 'parquet' | 'csv' | 'json' | 'text';

/** Types that a browser shows without running anything. Documents that may hold scripts are shown as their text. */
const images = /^image\/(?:png|jpeg|gif|webp|avif|bmp|x-icon|vnd\.microsoft\.icon)$/;
const byExtension: readonly (readonly [RegExp, string])[] = [
  [/\.png$/i, 'image/png'],
  [/\.jpe?g$/i, 'image/jpeg'],
  [/\.(gif|webp|avif|bmp)$/i, 'image/$1'],
  [/\.(mp4|m4v)$/i, 'video/mp4'],
  [/\.webm$/i, 'video/webm'],
  [/\.mp3$/i, 'audio/mpeg'],
  [/\.(ogg|wav|flac|aac)$/i, 'audio/$1'],
  [/\.pdf$/i, 'application/pdf'],
  [/\.parquet$/i, 'application/vnd.apache.parquet'],
  [/\.[ct]sv$/i, 'text/csv'],
  [/\.json$/i, 'application/json'],
  [/\.(?:txt|md|log|ya?ml|xml|html?|svg|css|[jt]sx?|py|sh|toml|ini|conf|jsonl|ndjson|sql)$/i, 'text/plain'],
];

function typeOf(key: string, stated: string): string {
  const [type = ''] = stated.toLowerCase().split(';');
  if (type !== '' && type !== 'application/octet-stream' && type !== 'binary/octet-stream')
    return type.trim();
  const found = byExtension.find(([pattern]) => pattern.test(key));
  if (found === undefined) return type.trim();
  const [, extension = ''] = found[0].exec(key) ?? [];
  return found[1].replace('$1', extension.toLowerCase());
}

function kindOf(type: string): Kind | undefined {
  if (images.test(type)) return 'image';
  if (type.startsWith('video/')) return 'video';
  if (type.startsWith('audio/')) return 'audio';
  if (type === 'application/pdf') return 'pdf';
  if (/\bparquet$/.test(type)) return 'parquet';
  if (type === 'text/csv' || type === 'text/tab-separated-values') return 'csv';
  if (type === 'application/json' || type.endsWith('+json')) return 'json';
  if (
    type.startsWith('text/') ||
    /^(?:application\/(?:xml|javascript|yaml|x-sh|sql|x-ndjson)|image\/svg)/.test(type) ||
    type.endsWith('+xml')
  )
    return 'text';
  return undefined;
}

export interface Of {
  readonly bucket: string;
  readonly objectKey: string;
  readonly versionId?: string | undefined;
}

export function Preview({ bucket, objectKey: key, versionId }: Of) {
  const head = useStorage({ method: 'HEAD', bucket, key, query: { versionId } }, ({ header }) => ({
    size: Number(header('content-length') ?? 0),
    type: typeOf(key, header('content-type') ?? ''),
    etag: header('etag') ?? '',
  }));
  return (
    <Reading query={head}>
      {({ size, type, etag }) => {
        const kind = kindOf(type);
        if (kind === undefined) return <Empty icon="file" text={w.noPreview(visible(type))} />;
        if (size === 0) return <Empty icon="file" text={w.emptyObject} />;
        if ((kind === 'image' || kind === 'pdf') && size > wholeMax)
          return <Empty icon="file" text={w.tooLarge(formatBytes(wholeMax))} />;
        return (
          <Shown
            key={etag}
            bucket={bucket}
            objectKey={key}
            versionId={versionId}
            {...{ size, kind, type, etag }}
          />
        );
      }}
    </Reading>
  );
}

interface ShownProps extends Of {
  readonly size: number;
  readonly kind: Kind;
  readonly type: string;
  readonly etag: string;
}

interface Made {
  /** Of the frame's document. Absent for a PDF. */
  readonly body?: string;
  readonly blob?: Blob;
  /** What is not shown. */
  readonly note?: string | undefined;
}

function Shown(props: ShownProps) {
  const { bucket, objectKey: key, versionId, kind, etag } = props;
  const made = useQuery<Made, Error>({
    queryKey: ['s3', bucket, key, 'preview', versionId ?? '', etag],
    queryFn: ({ signal }) => make(props, signal),
    // The address of a picture ends with its signature.
    staleTime: (linkSeconds - 60) * 1_000,
    gcTime: 0,
    refetchOnWindowFocus: false,
    structuralSharing: false,
  });
  return (
    <Reading query={made} rows={6}>
      {({ body, blob, note }) => (
        <>
          <Frame {...{ body, blob, kind }} label={w.previewOf(visible(nameOf(key)))} />
          {note !== undefined && <p class="quiet">{note}</p>}
        </>
      )}
    </Reading>
  );
}

interface FrameProps extends Pick<Made, 'body' | 'blob'> {
  readonly kind: Kind;
  readonly label: string;
}

function Frame({ body, blob, kind, label }: FrameProps) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const made = body === undefined ? blob && URL.createObjectURL(blob) : documentUrl(body);
    setUrl(made);
    return () => {
      if (made !== undefined) URL.revokeObjectURL(made);
    };
  }, [body, blob]);
  if (url === undefined) return null;
  // Browsers have no viewer of PDF in a sandbox. The type is stated here, so the content is no document of this origin.
  if (body === undefined) return <iframe class="preview" title={label} src={url} />;
  return <iframe class={`preview is-${kind}`} sandbox="" title={label} src={url} />;
}

async function make(props: ShownProps, signal: AbortSignal): Promise<Made> {
  const { bucket, objectKey: key, versionId, kind, type, size } = props;
  const link = () =>
    presign({ bucket, key, query: { versionId, 'response-content-type': type }, seconds: linkSeconds });
  if (kind === 'image') return { body: imageBody(await link()) };
  if (kind === 'video' || kind === 'audio') return { body: mediaBody(kind, await link()), note: w.byRange };
  if (kind === 'pdf')
    return { blob: new Blob([await read(props, 0, size, signal)], { type: 'application/pdf' }) };
  if (kind === 'parquet') return makeParquet(props, signal);
  const max = kind === 'json' ? jsonMax : textMax;
  const isCut = size > max;
  const text = new TextDecoder().decode(await read(props, 0, Math.min(size, isCut ? textMax : max), signal));
  const note = isCut ? w.cut(formatBytes(textMax), formatBytes(size)) : undefined;
  if (kind === 'json' && !isCut) return { body: textBody(formatJson(text)) };
  if (kind !== 'csv') return { body: textBody(text), note };
  const [head = [], ...rows] = readCsv(text, { isCut });
  return {
    body: tableBody(head, rows),
    note: isCut || rows.length >= csvRowsMax ? w.firstRows(rows.length) : t.ui.rows(rows.length),
  };
}

async function makeParquet(props: ShownProps, signal: AbortSignal): Promise<Made> {
  const { readParquet } = await import('./parquet.ts');
  const found = await readParquet(props.size, (start, end) => read(props, start, end, signal));
  const schema = tableBody([w.column, w.type], found.schema);
  const first = found.failed === undefined ? tableBody(found.columns, found.first) : '';
  const note =
    found.failed === undefined ? w.parquet(found.rows, found.first.length) : w.parquetFailed(found.failed);
  return { body: `${first}${schema}`, note };
}

/** Numbers stay as they are written: a parser would round long ones. */
function formatJson(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text);
    return /\d{16}/.test(text) ? text : JSON.stringify(parsed, null, 2);
  } catch {
    return text;
  }
}

/** @param end is exclusive */
async function read(
  { bucket, objectKey: key, versionId, etag }: ShownProps,
  start: number,
  end: number,
  signal: AbortSignal,
) {
  const headers = { range: `bytes=${start}-${end - 1}`, 'if-match': etag };
  const { bytes } = await storage({
    method: 'GET',
    bucket,
    key,
    query: { versionId },
    headers,
    as: 'arraybuffer',
    signal,
  });
  return bytes ?? new ArrayBuffer(0);
}
