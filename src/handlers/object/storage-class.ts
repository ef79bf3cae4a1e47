/** Storage classes on the wire and in the specification's own words (design §7.6). */
import { fail } from '../../errors/refusal.ts';
import { type BucketCall, header } from '../call.ts';

/** The public API's classes; every one of them is kept and shown. */
const wireClasses = new Set([
  'STANDARD',
  'REDUCED_REDUNDANCY',
  'STANDARD_IA',
  'ONEZONE_IA',
  'INTELLIGENT_TIERING',
  'GLACIER',
  'GLACIER_IR',
  'DEEP_ARCHIVE',
]);
const specified: Readonly<Record<string, string>> = {
  default: 'STANDARD',
  'standard-ia': 'STANDARD_IA',
  archive: 'GLACIER',
};

/** A class by either of its names, as the public API calls it; undefined when there is none. */
export function wireClassOf(name: string): string | undefined {
  const wire = Object.hasOwn(specified, name) ? specified[name] : name;
  return wire !== undefined && wireClasses.has(wire) ? wire : undefined;
}

/** The class that a write asks for; else the default of its bucket (spec "Resources", `DefaultClass`). */
export function storageClassOf(call: BucketCall): string {
  const raw = header(call, 'storage-class');
  if (raw === undefined || raw === '') return call.bucket.defaultClass ?? 'STANDARD';
  const name = wireClassOf(raw);
  if (name === undefined) throw fail('InvalidStorageClass', { elements: { StorageClassRequested: raw } });
  return name;
}
