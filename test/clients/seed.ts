/** Creates the objects of the wide listing with this project's client, because some clients would need a minute for it. */
import { sender } from '../runtimes/client.ts';
import { encodePath } from '../support/sign.ts';
import { type World, wideKeys } from './world.ts';

const parallel = 16;

export async function seedWide({ url, user }: Pick<World, 'url' | 'user'>, bucket: string): Promise<void> {
  const send = sender({ url, ...user });
  const waiting = wideKeys().values();
  const lane = async (): Promise<void> => {
    for (const key of waiting) {
      const { status, text } = await send('PUT', `/${bucket}/${encodePath(key)}`, { body: `body of ${key}` });
      if (status !== 200) throw new Error(`PUT ${key}: ${status} ${text}`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, lane));
}
