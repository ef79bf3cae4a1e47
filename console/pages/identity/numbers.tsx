/** Quotas and rate limits: forms of numbers where empty is unlimited. */
import { useRef, useState } from 'preact/hooks';
import { parseBytes } from '../../../src/base/text/byte-size.ts';
import type { Allowed } from '../../app/allowed.ts';
import { isMissing } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Form, TextField } from '../../ui/form.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { writeSize } from '../../ui/values.tsx';
import { may, Part } from './frame.tsx';
import { w } from './words.ts';

interface NumbersProps<Name extends string> {
  readonly title: string;
  readonly hint: string;
  readonly fields: readonly (readonly [name: Name, label: string, unit: 'bytes' | 'count'])[];
  readonly values: Readonly<Partial<Record<Name, number | undefined>>>;
  /** Undefined where the caller may only read. */
  readonly onSave: ((values: Readonly<Partial<Record<Name, number>>>) => Promise<unknown>) | undefined;
}

const writeNumber = (value: number, unit: 'bytes' | 'count'): string =>
  unit === 'bytes' || value === 0 ? writeSize(value) : String(value);

function Numbers<Name extends string>({ title, hint, fields, values, onSave }: NumbersProps<Name>) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [isSaved, setSaved] = useState(false);
  const [faulty, setFaulty] = useState<Name>();
  const textOf = (name: Name, unit: 'bytes' | 'count') => texts[name] ?? writeNumber(values[name] ?? 0, unit);
  const save = async () => {
    setSaved(false);
    setFaulty(undefined);
    const numbers: Partial<Record<Name, number>> = {};
    for (const [name, , unit] of fields) {
      const text = textOf(name, unit).trim();
      const value = text === '' ? 0 : unit === 'bytes' ? parseBytes(text) : Number(text);
      if (value === undefined || !Number.isSafeInteger(value) || value < 0) return setFaulty(name);
      numbers[name] = value;
    }
    await onSave?.(numbers);
    setSaved(true);
  };
  const isReadonly = onSave === undefined;
  const inside = (faultOf: (field: string) => string | undefined) => (
    <>
      <div class="field-pairs">
        {fields.map(([name, label, unit]) => (
          <TextField
            key={name}
            label={label}
            value={textOf(name, unit)}
            readonly={isReadonly}
            onChange={(text) => {
              setSaved(false);
              setTexts({ ...texts, [name]: text });
            }}
            fault={faulty === name ? w.noNumber(textOf(name, unit)) : faultOf(name)}
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
        <Form submit={t.ui.save} onSubmit={save}>
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
      onSave={may(allowed, 'PutUserQuota') ? (body) => put.mutateAsync({ ...ask, body }) : undefined}
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
  const save = async (numbers: Readonly<Record<string, number>>) => {
    const body = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value > 0));
    if (Object.keys(body).length > 0) await put.mutateAsync({ path, body });
    else if (!isMissing(error)) await remove.mutateAsync({ path });
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
      onSave={may(allowed, 'PutAccountLimit') && may(allowed, 'DeleteAccountLimit') ? save : undefined}
    />
  );
}
