/** Faults and delays that a test asks for: requests that meet them are refused as the service would refuse them, or wait. */

import { type ErrorCode, errorCodes, fail, type Refusal } from '../../base/errors.ts';
import { nearest } from '../../config/nearest.ts';
import { systemClock } from '../../ports/clock.ts';
import { operationNames } from '../../protocol/operations/operations.ts';

/** Which requests a fault is for; absent fields match every request. */
export interface RequestFilter {
  /** An operation of the public API, such as `PutObject`. */
  readonly operation?: string | undefined;
  readonly bucket?: string | undefined;
  readonly key?: string | undefined;
}

export interface FaultOptions extends RequestFilter {
  /** The error code of the next requests, such as `SlowDown`. */
  readonly next: ErrorCode | (string & {});
  /** How many requests fail. Default 1. */
  readonly count?: number | undefined;
}

export interface LatencyOptions extends RequestFilter {
  /** How much longer a request takes; 0 ends the delay. */
  readonly ms: number;
}

export interface AskedRequest {
  readonly operation: string;
  readonly bucket: string;
  readonly key: string;
}

interface Fault extends RequestFilter {
  readonly code: ErrorCode;
  left: number;
}

const isMet = ({ operation, bucket, key }: RequestFilter, asked: AskedRequest): boolean =>
  (operation ?? asked.operation) === asked.operation &&
  (bucket ?? asked.bucket) === asked.bucket &&
  (key ?? asked.key) === asked.key;

/** @throws RangeError that names the nearest known one */
function assertKnown(what: string, name: string, known: readonly string[]): void {
  if (known.includes(name)) return;
  const close = nearest(name, known);
  throw new RangeError(`${name} is no known ${what}${close === undefined ? '' : `; ${close} is one`}`);
}

const assertOperation = (name: string | undefined): void => {
  if (name !== undefined) assertKnown('operation', name, operationNames);
};

export class Faults {
  #faults: Fault[] = [];
  #delays: LatencyOptions[] = [];

  fail({ next, count = 1, ...filter }: FaultOptions): void {
    assertKnown('error code', next, errorCodes);
    assertOperation(filter.operation);
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`count is ${count}; it must be a whole number from 1`);
    // The cast: it is one of the codes.
    this.#faults.push({ ...filter, code: next as ErrorCode, left: count });
  }

  delay(latency: number | LatencyOptions): void {
    const asked = typeof latency === 'number' ? { ms: latency } : latency;
    assertOperation(asked.operation);
    if (!(asked.ms >= 0)) throw new RangeError(`ms is ${asked.ms}; it must be 0 or more`);
    // The latest one that a request meets is the one that it obeys.
    this.#delays.unshift(asked);
  }

  clear(): void {
    this.#faults = [];
    this.#delays = [];
  }

  async wait(asked: AskedRequest, signal: AbortSignal): Promise<void> {
    const ms = this.#delays.find((each) => isMet(each, asked))?.ms ?? 0;
    if (ms > 0) await systemClock.sleep(ms, signal);
  }

  /** The refusal of a request, which uses up one of its count; undefined where the request goes on. */
  take(asked: AskedRequest): Refusal | undefined {
    const fault = this.#faults.find((each) => isMet(each, asked));
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left === 0) this.#faults = this.#faults.filter((each) => each !== fault);
    return fail(fault.code, { elements: elementsOf(fault.code, asked) });
  }
}

/** The elements by which the public service names what is missing. */
function elementsOf(code: ErrorCode, { bucket, key }: AskedRequest): Readonly<Record<string, string>> {
  if (code === 'NoSuchKey' || code === 'NoSuchVersion' || code === 'MethodNotAllowed') return { Key: key };
  if (code === 'NoSuchBucket' || code === 'BucketNotEmpty' || code === 'BucketAlreadyExists')
    return { BucketName: bucket };
  return {};
}
