/** Handler suites in workerd with the metadata in three Durable Objects: those about what a commit changes beside its row. */
import { handlerSuites, shardedSuites } from './handler-suites.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
process.env['SLUICE_TEST_SHARDS'] = '3';
const { runHandlerSuites } = await import('./handler-runs.ts');
runHandlerSuites(Object.fromEntries(shardedSuites.map((name) => [name, handlerSuites[name]])));
