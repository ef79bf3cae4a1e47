/** The variable for the name of the file in the fields of a form. */
import { expect, test } from 'vitest';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { encodeForm, type FormPart, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';

const post = (world: GatewayWorld, parts: readonly FormPart[]) =>
  world.anonymous.post('/bucket', { body: encodeForm(parts), headers: multipart() });
const result = ({ status, code }: Answer) => [status, code];

// biome-ignore lint/suspicious/noTemplateCurlyInString: it is what forms say.
const variable = '${filename}';

test('the variable for the file name in the key is replaced by the name without its path', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const send = (key: string, fileName: string, prefix = 'up/') => {
    const fields = signForm(alice, { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', prefix]] });
    return post(world, [...fieldsOf({ key, ...fields }), fileOf('x', fileName)]);
  };
  for (const [key, fileName, stored] of [
    [`up/${variable}`, 'a.txt', 'up%2Fa.txt'],
    [`up/${variable}`, 'C:\\\\docs\\\\b.txt', 'up%2Fb.txt'],
    [`up/${variable}`, '../../c.txt', 'up%2Fc.txt'],
    [`up/${variable}-${variable}`, '$&', 'up%2F%24%26-%24%26'],
    [`up/${variable}`, '', 'up%2F'],
    [`up/../${variable.toUpperCase()}`, 'd', 'up%2F..%2F%24%7BFILENAME%7D'],
  ] as const) {
    const answer = await send(key, fileName);
    expect([answer.status, answer.header('location')]).toEqual([204, `http://localhost/bucket/${stored}`]);
  }
  expect(result(await send(variable, 'other/x.txt'))).toEqual([403, 'AccessDenied']);
  expect((await send(variable, 'x/up', 'u')).status).toBe(204);
});

test('the variable is replaced in every field, within the limit of the fields', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  // Conditions are compared with the fields after the replacement.
  const anything = (fields: Record<string, string>) => {
    const open = ['key', ...Object.keys(fields)].map((name) => ['starts-with', `$${name}`, '']);
    return signForm(alice, { conditions: [{ bucket: 'bucket' }, ...open] });
  };
  const send = (fields: Record<string, string>, fileName: string) =>
    post(world, [...fieldsOf({ key: 'k', ...fields, ...anything(fields) }), fileOf('x', fileName)]);
  const tags = `<Tagging><TagSet><Tag><Key>name</Key><Value>${variable}</Value></Tag></TagSet></Tagging>`;
  const stored = await send(
    {
      'Content-Disposition': `attachment; filename=${variable}`,
      'x-amz-meta-name': `${variable} ${variable}`,
      success_action_redirect: `https://example.com/?name=${variable}`,
      tagging: tags.replace(variable, `a+${variable}`),
    },
    'up/a=b.txt',
  );
  expect([stored.status, new URL(stored.header('location') ?? '').searchParams.get('name')]).toEqual([
    303,
    'a=b.txt',
  ]);
  const shown = await world.client.head('/bucket/k');
  expect([shown.header('content-disposition'), shown.header('*-meta-name')]).toEqual([
    'attachment; filename=a=b.txt',
    'a=b.txt a=b.txt',
  ]);
  expect((await world.client.get('/bucket/k?tagging')).one('Value')).toBe('a+a=b.txt');
  const injected = await send({ tagging: tags }, '<Value>&amp;');
  expect(result(injected)).toEqual([400, 'InvalidTag']);
  const long = await send({ 'x-ignore-a': variable.repeat(1000) }, 'x'.repeat(1000));
  expect(result(long)).toEqual([400, 'MaxPostPreDataLengthExceededError']);
});
