/** A new bucket of the caller's account, by the storage protocol. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'preact/hooks';
import { storage } from '../../storage/client.ts';
import { Panel } from '../../ui/dialog.tsx';
import { CheckField, Form, TextField } from '../../ui/form.tsx';
import { w } from './words.ts';

const enabled =
  '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>';

interface CreateBucketProps {
  readonly onClose: () => void;
  readonly onDone: (bucket: string) => void;
}

export function CreateBucket({ onClose, onDone }: CreateBucketProps) {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [isVersioned, setVersioned] = useState(false);
  const [isLocked, setLocked] = useState(false);
  const submit = async () => {
    const headers = isLocked ? { 'x-amz-bucket-object-lock-enabled': 'true' } : {};
    await storage({ method: 'PUT', bucket: name, headers });
    await client.invalidateQueries({ queryKey: ['ListBuckets'] });
    // Object Lock enables versioning by itself.
    if (isVersioned && !isLocked)
      await storage({ method: 'PUT', bucket: name, query: { versioning: '' }, body: enabled });
    await client.invalidateQueries({ queryKey: ['ListBuckets'] });
    onDone(name);
  };
  return (
    <Panel title={w.create} onClose={onClose}>
      <Form submit={w.create} disabled={name === ''} onSubmit={submit} onCancel={onClose}>
        {() => (
          <>
            <TextField label={w.name} value={name} onChange={setName} hint={w.nameHint} required code />
            <CheckField
              label={w.versioningOn}
              value={isVersioned || isLocked}
              disabled={isLocked}
              onChange={setVersioned}
            />
            <CheckField label={w.lock} value={isLocked} onChange={setLocked} />
          </>
        )}
      </Form>
    </Panel>
  );
}
