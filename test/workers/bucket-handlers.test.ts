/**
 * Suites of handlers about buckets, accounts and rights in workerd: metadata in a Durable Object, bytes in R2, in one
 * process of miniflare.
 */
import { bucketSuites } from './handler-suites.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
const { runHandlerSuites } = await import('./handler-runs.ts');
runHandlerSuites(bucketSuites);
