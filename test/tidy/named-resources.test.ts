/** Every field of the operator API that names a resource is declared in the row of its operation, so that policies are asked about it. */
import { expect, test } from 'vitest';
import { adminOperationNames, describeAdminOperation } from '../../src/protocol/admin/operations.ts';
import type { JsonSchema } from '../../src/protocol/formats/json-shape.ts';

/** Fields of requests that can name a resource. */
const namesResource =
  /^(?!has|max).*(?:bucket|account|user|owner|role|group|polic|peer|cluster|target|destination|placement|identity|keys?$|key_?id|requestId)|^name$|^id$/i;
/** Fields of entries in replies that say what an entry is about. */
const namesSubject = /^(?:bucket|account|owner|cluster|peer|target|destination|resource)$/i;
/** Parameters of paths whose place in the path already is the resource of policies. */
const isOwnPath = (name: string, parameter: string): boolean => {
  const { path } = describeAdminOperation(name as (typeof adminOperationNames)[number]);
  const [, , , noun = ''] = path.split('/');
  const collection = path.split(`/:${parameter}`)[0]?.split('/').at(-1);
  return !(noun === 'iam' || (collection === 'resync' && parameter === 'bucket'));
};

/** The fields of a request, those of nested objects too. */
const fieldsOf = (schema: JsonSchema | undefined): readonly string[] =>
  Object.entries(schema?.properties ?? {}).flatMap(([name, inner]) => [
    name,
    ...fieldsOf(inner),
    ...fieldsOf(inner.items),
  ]);

test('each field of a query or body that can name a resource is declared by the row of its operation', () => {
  const undeclared = adminOperationNames.flatMap((name) => {
    const { query, body, parameters, names = {} } = describeAdminOperation(name);
    const fields = [
      ...Object.keys(query),
      ...fieldsOf(body?.schema),
      ...parameters.filter((parameter) => !isOwnPath(name, parameter)),
    ];
    return fields
      .filter((field) => namesResource.test(field) && !Object.hasOwn(names, field))
      .map((field) => `${name}.${field}`);
  });
  expect(undeclared).toEqual([]);
});

test('each declared field is one of the request, and so is each field of its path', () => {
  const unknown = adminOperationNames.flatMap((name) => {
    const { query, body, parameters, names = {} } = describeAdminOperation(name);
    const known = new Set(['own', ...Object.keys(query), ...fieldsOf(body?.schema), ...parameters]);
    const used = Object.entries(names).flatMap(([field, resource]) => [
      field,
      ...('path' in resource
        ? [...resource.path.matchAll(/[{|](\w+)/g)].map(([, placeholder = '']) => placeholder)
        : []),
    ]);
    return used.filter((field) => !known.has(field)).map((field) => `${name}.${field}`);
  });
  expect(unknown).toEqual([]);
});

test('each list of a reply whose entries say what they are about is declared by the row of its operation', () => {
  const undeclared = adminOperationNames.flatMap((name) => {
    const { reply, lists = {} } = describeAdminOperation(name);
    return Object.entries(reply?.schema.properties ?? {})
      .filter(([, { items }]) => Object.keys(items?.properties ?? {}).some((each) => namesSubject.test(each)))
      .filter(([list]) => !Object.hasOwn(lists, list))
      .map(([list]) => `${name}.${list}`);
  });
  expect(undeclared).toEqual([]);
});
