/** The table of storage classes, and `SVC_STORAGE_CLASSES`: both formats, and all errors reported together. */
import { describe, expect, it } from 'vitest';
import { configWith, parseConfig } from '../../src/config/read-config.ts';
import {
  findStorageClass,
  isColder,
  nameTransition,
  storageClassNames,
  waterfall,
} from '../../src/ports/storage-classes.ts';

const classesOf = (text: string, clusters = 'a,b') =>
  configWith({ SVC_STORAGE_CLASSES: text, SVC_POOL_CLUSTERS: clusters }).SVC_STORAGE_CLASSES;
const faultsOf = (env: Record<string, string>): readonly string[] => {
  const parsed = parseConfig(env);
  return 'faults' in parsed ? parsed.faults : [];
};

describe('the table of storage classes', () => {
  const ranked = storageClassNames.map((name) => ({ name, rank: findStorageClass(name)?.rank }));

  it('gives each class that objects can move to a rank and a name in access logs of its own', () => {
    const targets = ranked.filter(({ rank }) => rank !== 0);
    expect(targets.map(({ rank }) => rank).sort()).toEqual(targets.map((_, index) => index + 1));
    expect([...waterfall].sort()).toEqual(targets.map(({ name }) => name).sort());
    const names = waterfall.map((name) => nameTransition(name) ?? '');
    expect(names.filter((name) => !/^S3\.TRANSITION(_[A-Z]+)?\.OBJECT$/.test(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  it('leads from the two classes of rank 0, and from each class to the colder ones only', () => {
    expect(ranked.filter(({ rank }) => rank === 0).map(({ name }) => name)).toEqual([
      'STANDARD',
      'REDUCED_REDUNDANCY',
    ]);
    const order = ['STANDARD', ...waterfall];
    for (const [at, name] of order.entries())
      expect(order.filter((to) => isColder(to, name))).toEqual(order.slice(at + 1));
  });

  it('moves no object from or to a class that is not in it', () => {
    expect(storageClassNames.filter((name) => isColder('OUTPOSTS', name))).toEqual([]);
    expect(storageClassNames.filter((name) => isColder(name, 'OUTPOSTS'))).toEqual([]);
    expect(nameTransition('OUTPOSTS')).toBeUndefined();
  });
});

describe('the storage classes', () => {
  it('are none by default, and take the shape of the specification', () => {
    expect(configWith().SVC_STORAGE_CLASSES).toEqual([]);
    expect(classesOf('default, standard-ia@a,archive@b')).toEqual([
      { storageClass: 'STANDARD' },
      { storageClass: 'STANDARD_IA', cluster: 'a' },
      { storageClass: 'GLACIER', cluster: 'b' },
    ]);
    expect(classesOf('GLACIER_IR@a')).toEqual([{ storageClass: 'GLACIER_IR', cluster: 'a' }]);
  });

  it('may be pinned to several clusters, each in a separate item', () => {
    expect(classesOf('default@a,default@b,archive@b')).toEqual([
      { storageClass: 'STANDARD', cluster: 'a' },
      { storageClass: 'STANDARD', cluster: 'b' },
      { storageClass: 'GLACIER', cluster: 'b' },
    ]);
    expect(faultsOf({ SVC_STORAGE_CLASSES: 'default@a,STANDARD@a', SVC_POOL_CLUSTERS: 'a,b' })).toEqual([
      'SVC_STORAGE_CLASSES=default@a,STANDARD@a: "STANDARD@a" says a second time where STANDARD goes',
    ]);
  });

  it('report every error together', () => {
    const text = 'default,STANDARD@a,warm,archive@A,standard-ia@c,=x';
    const known =
      'default, standard-ia, archive, STANDARD, REDUCED_REDUNDANCY, STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER, GLACIER_IR, DEEP_ARCHIVE';
    const shape = 'is not <class>=<pool>/<namespace>@<cluster>, of which only the class must be';
    expect(faultsOf({ SVC_STORAGE_CLASSES: text })).toEqual([
      `SVC_STORAGE_CLASSES=${text}: "STANDARD@a" says a second time where STANDARD goes`,
      `SVC_STORAGE_CLASSES=${text}: "warm" names no storage class, which are ${known}`,
      `SVC_STORAGE_CLASSES=${text}: "archive@A" ${shape}`,
      `SVC_STORAGE_CLASSES=${text}: "=x" ${shape}`,
    ]);
  });

  it('are pinned to clusters that there are, and name pools where the backend has some', () => {
    expect(faultsOf({ SVC_STORAGE_CLASSES: 'archive=cold.data/ns@c' })).toEqual([
      'SVC_STORAGE_CLASSES pins classes to c, which SVC_POOL_CLUSTERS does not list',
      'SVC_STORAGE_CLASSES names pools, which SVC_DATA_BACKEND=memory does not have',
    ]);
  });
});
