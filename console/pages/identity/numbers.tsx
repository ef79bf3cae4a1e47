/** Quotas and rate limits: forms of numbers where empty is unlimited. */
import { useRef, useState } from 'preact/hooks';
import { parseBytes } from '../../../src/base/text/byte-size.ts';
import type { Allowed } from '../../app/allowed.ts';
import { isMissing, orMissing, request } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Form, TextField } from '../../ui/form.tsx';
import { findChanged, isZero, useBases, w as wordsOfLimits } from '../../ui/limits.ts';
import { conditionOnPresent } from '../../ui/stale.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { writeSize } from '../../ui/values.tsx';
import { may, Part } from './frame.tsx';
import { w } from './words.ts';

interface NumbersProps<Name extends string> {
  readonly title: string;
  readonly hint: string;
  readonly fields: readonly (readonly [name: Name, label: string, unit: 'bytes' | 'count'])[];
  readonly values: Readonly<Partial<Record<Name, number | undefined>>>;
  /** Reads the values again, with their ETag. Undefined where none is set. */
  readonly readPresent: () => Promise<Present<Name> | undefined>;
  /** Takes the fields that were changed; 0 is unlimited. Undefined where the caller may only read. */
  readonly onSave:
    | ((
        changed: Readonly<Partial<Record<Name, number>>>,
        present: Present<Name> | undefined,
      ) => Promise<unknown>)
    | undefined;
}

interface Present<Name extends string> {
  readonly json: NumbersProps<Name>['values'];
  readonly etag: string | undefined;
}

const writeNumber = (value: number, unit: 'bytes' | 'count'): string =>
  unit === 'bytes' || value === 0 ? writeSize(value) : String(value);

function Numbers<Name extends string>({
  title,
  hint,
  fields,
  values,
  readPresent,
  onSave,
}: NumbersProps<Name>) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [isSaved, setSaved] = useState(false);
  const [faulty, setFaulty] = useState<readonly [name: Name, message: string]>();
  const units = new Map(fields.map(([name, , unit]) => [name, unit]));
  const unitOf = (name: Name) => units.get(name) ?? 'count';
  const textOf = (from: NumbersProps<Name>['values'] | undefined, name: Name) =>
    writeNumber(from?.[name] ?? 0, unitOf(name));
  const storedText = (name: Name) => textOf(values, name);
  const bases = useBases(storedText);
  const changed = findChanged([...units.keys()], texts, storedText);
  const reject = (name: Name, message: string) => {
    setFaulty([name, message]);
    return false;
  };
  const save = async () => {
    setSaved(false);
    setFaulty(undefined);
    const numbers: Partial<Record<Name, number>> = {};
    for (const [name, text] of changed) {
      if (isZero(text)) return reject(name, wordsOfLimits.zero);
      const value = text === '' ? 0 : unitOf(name) === 'bytes' ? parseBytes(text) : Number(text);
      if (value === undefined || !Number.isSafeInteger(value) || value < 0)
        return reject(name, w.noNumber(text));
      numbers[name] = value;
    }
    const present = await readPresent();
    const conflict = bases.findConflict(changed, (name) => textOf(present?.json, name));
    if (conflict !== undefined) return reject(...conflict);
    await onSave?.(numbers, present);
    bases.clear();
    setTexts({});
    setSaved(true);
    return true;
  };
  const isReadonly = onSave === undefined;
  const inside = (faultOf: (field: string) => string | undefined) => (
    <>
      <div class="field-pairs">
        {fields.map(([name, label]) => (
          <TextField
            key={name}
            label={label}
            value={texts[name] ?? storedText(name)}
            readonly={isReadonly}
            onChange={(text) => {
              setSaved(false);
              bases.edit(name);
              setTexts({ ...texts, [name]: text });
            }}
            fault={faulty?.[0] === name ? faulty[1] : faultOf(name)}
          />
        ))}
      </div>
      <p class="hint" role="status">
        {isSaved ? w.saved : hint}
      </p>
    </>
  );
  return (
    <Part title={title}>
      {isReadonly ? (
        <div class="stack">{inside(() => undefined)}</div>
      ) : (
        <Form submit={t.ui.save} disabled={changed.length === 0} onSubmit={save}>
          {inside}
        </Form>
      )}
    </Part>
  );
}

/** True from the first reply on, "there is none" included: while it is read again, the form keeps what was typed. */
function useWasRead(data: unknown, error: unknown): boolean {
  const wasRead = useRef(false);
  if (data !== undefined || isMissing(error)) wasRead.current = true;
  return wasRead.current;
}

interface QuotaProps {
  readonly account: string;
  readonly user?: string;
  readonly allowed: Allowed;
}

/** The quota of an account, or of one of its users. */
export function Quota({ account, user, allowed }: QuotaProps) {
  const ask = { path: { user: user ?? account }, query: user === undefined ? {} : { account } };
  const { data, error } = useAdmin('GetUserQuota', ask, { enabled: may(allowed, 'GetUserQuota') });
  const put = useChange('PutUserQuota', ['GetUserQuota', 'GetAccount']);
  const wasRead = useWasRead(data, error);
  if (!may(allowed, 'GetUserQuota')) return null;
  if (!wasRead) return error ? <Failure error={error} /> : <Skeleton rows={2} />;
  return (
    <Numbers
      title={w.quota}
      hint={w.quotaHint}
      fields={[
        ['totalMaxBytes', w.maxBytes, 'bytes'],
        ['maxBuckets', w.maxBuckets, 'count'],
      ]}
      values={data ?? {}}
      readPresent={() => request('GetUserQuota', ask).catch(orMissing)}
      onSave={
        may(allowed, 'PutUserQuota')
          ? (body, present) => put.mutateAsync({ ...ask, ...conditionOnPresent(present), body })
          : undefined
      }
    />
  );
}

/** The rate limit of an account. */
export function Limits({ account, allowed }: Omit<QuotaProps, 'user'>) {
  const path = { account };
  const { data, error } = useAdmin('GetAccountLimit', { path }, { enabled: may(allowed, 'GetAccountLimit') });
  const put = useChange('PutAccountLimit', ['GetAccountLimit']);
  const remove = useChange('DeleteAccountLimit', ['GetAccountLimit']);
  const wasRead = useWasRead(data, error);
  if (!may(allowed, 'GetAccountLimit')) return null;
  if (!wasRead) return error ? <Failure error={error} /> : <Skeleton rows={2} />;
  // The gateway replaces the whole limit: what was not changed is taken from what is stored now.
  const save = async (
    changed: Readonly<Partial<Record<string, number>>>,
    present: Present<string> | undefined,
  ) => {
    const limits = Object.entries({ ...present?.json, ...changed }).filter(([, value = 0]) => value > 0);
    const condition = conditionOnPresent(present);
    if (limits.length > 0) await put.mutateAsync({ path, ...condition, body: Object.fromEntries(limits) });
    else if (present !== undefined) await remove.mutateAsync({ path, ...condition });
  };
  return (
    <Numbers
      title={w.limits}
      hint={w.limitsHint}
      fields={[
        ['requestsPerSecond', w.requestsPerSecond, 'count'],
        ['bytesPerSecond', w.bytesPerSecond, 'bytes'],
        ['concurrentRequests', w.concurrentRequests, 'count'],
        ['burstSeconds', w.burstSeconds, 'count'],
      ]}
      // After the removal the reply before it is still cached.
      values={isMissing(error) ? {} : (data ?? {})}
      readPresent={() => request('GetAccountLimit', { path }).catch(orMissing)}
      onSave={may(allowed, 'PutAccountLimit') && may(allowed, 'DeleteAccountLimit') ? save : undefined}
    />
  );
}
