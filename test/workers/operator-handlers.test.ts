/** Suites of handlers about the operator API in workerd: metadata in a Durable Object, bytes in R2, in one process of miniflare. */
import { operatorSuites } from './handler-suites.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
const { runHandlerSuites } = await import('./handler-runs.ts');
runHandlerSuites(operatorSuites);
