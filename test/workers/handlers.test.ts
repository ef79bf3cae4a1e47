/** Suites of handlers about objects in workerd: metadata in a Durable Object, bytes in R2, in one process of miniflare. */
import { objectSuites } from './handler-suites.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
const { runHandlerSuites } = await import('./handler-runs.ts');
runHandlerSuites(objectSuites);
