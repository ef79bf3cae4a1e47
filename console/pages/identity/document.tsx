/** Documents of policies and of trust: their text, their field, and the forms that store them. */
import { useState } from 'preact/hooks';
import { t } from '../../text/text.ts';
import { Form, TextField } from '../../ui/form.tsx';
import { Stale, useStaleCheck } from '../../ui/stale.tsx';
import { formatPolicy } from '../why/policies.ts';
import { w } from './words.ts';

/** A document that allows actions of S3 on a bucket and its objects, or on all buckets of the account. */
export const allowOf = (actions: readonly string[], bucket: string): string =>
  JSON.stringify(
    {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Action: actions,
          Resource: bucket === '' ? '*' : [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`],
        },
      ],
    },
    null,
    2,
  );

export const readActions = ['s3:GetObject', 's3:GetObjectVersion', 's3:ListBucket', 's3:GetBucketLocation'];
export const writeActions = [
  ...readActions,
  's3:PutObject',
  's3:DeleteObject',
  's3:AbortMultipartUpload',
  's3:ListMultipartUploadParts',
];

interface DocumentFieldProps {
  readonly label?: string;
  readonly value: string;
  /** Undefined where the caller may not change it. */
  readonly onChange: ((text: string) => void) | undefined;
  readonly fault?: string | undefined;
}

export const DocumentField = ({ label = w.document, value, onChange, fault }: DocumentFieldProps) =>
  onChange === undefined ? (
    <TextField label={label} value={value} onChange={() => {}} lines={14} code readonly />
  ) : (
    <TextField
      label={label}
      value={value}
      onChange={onChange}
      hint={w.documentHint}
      fault={fault}
      lines={14}
      code
    />
  );

interface StoredDocumentProps {
  readonly stored: string;
  /** Its field in the request, for the refusal. */
  readonly field: 'document' | 'trust';
  /** Undefined where the caller may not change it. */
  readonly onSave: ((text: string) => Promise<unknown>) | undefined;
  /** Reads `stored` again. */
  readonly readStored: () => Promise<string>;
}

/** A document that exists, to read or to change. */
export function StoredDocument({ stored, field, onSave, readStored }: StoredDocumentProps) {
  const [text, setText] = useState<string>();
  const check = useStaleCheck(formatPolicy(stored), text !== undefined);
  const current = text ?? formatPolicy(stored);
  if (onSave === undefined) return <DocumentField value={current} onChange={undefined} />;
  const save = async () => {
    if (!(await check.isCurrent(async () => formatPolicy(await readStored())))) return false;
    await onSave(current);
    setText(undefined);
    return true;
  };
  return (
    <Form submit={t.ui.save} disabled={current === check.base} onSubmit={save}>
      {(faultOf) => (
        <>
          <DocumentField value={current} onChange={setText} fault={faultOf(field)} />
          <Stale check={check} text={current} onReload={setText} />
        </>
      )}
    </Form>
  );
}

interface NewDocumentProps extends Pick<StoredDocumentProps, 'field'> {
  readonly submit: string;
  readonly label: string;
  readonly initial: string;
  readonly onCreate: (made: {
    readonly name: string;
    readonly text: string;
    readonly described: { readonly description?: string };
  }) => Promise<unknown>;
  readonly onCancel: () => void;
}

/** The form of something new that is a name, a description and a document. */
export function NewDocument({ submit, label, field, initial, onCreate, onCancel }: NewDocumentProps) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [text, setText] = useState(initial);
  return (
    <Form
      submit={submit}
      disabled={name === '' || text === ''}
      onSubmit={async () => {
        await onCreate({ name, text, described: description === '' ? {} : { description } });
      }}
      onCancel={onCancel}
    >
      {(faultOf) => (
        <>
          <TextField label={w.name} value={name} onChange={setName} fault={faultOf('name')} required code />
          <TextField label={w.description} value={description} onChange={setDescription} />
          <DocumentField label={label} value={text} onChange={setText} fault={faultOf(field)} />
        </>
      )}
    </Form>
  );
}
