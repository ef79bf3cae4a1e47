/** Before the suites of the console: builds what they load. */
import { buildConsole } from '../../console/build.ts';

export default async function build(): Promise<void> {
  await buildConsole();
}
