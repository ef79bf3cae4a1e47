/** The document as the XML of the storage protocol, for texts that are pasted from the documentation of its clients. */
import { useQuery } from '@tanstack/react-query';
import type { Ref } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { Diff } from '../../ui/diff.tsx';
import { TextField } from '../../ui/form.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { w } from './words.ts';

interface XmlAreaProps {
  readonly family: ConfigurationFamily;
  /** The document as JSON. */
  readonly text: string;
  /** The stored one; undefined where nothing is set, and where no difference is shown. */
  readonly stored: string | undefined;
  /** A text that is no document of the family has a fault, and leaves the JSON as it is. */
  readonly onChange: (change: { readonly text: string } | { readonly fault: string }) => void;
  readonly xmlRef: { current: string };
  readonly area: Ref<HTMLTextAreaElement>;
  readonly isReadOnly: boolean;
}

export function XmlArea(props: XmlAreaProps) {
  const codec = useQuery({
    queryKey: ['xml-of-configurations'],
    queryFn: () => import('../../storage/xml-documents.ts'),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (codec.error) return <Failure error={codec.error} onRetry={() => codec.refetch()} />;
  return codec.data === undefined ? <Skeleton rows={6} /> : <Loaded {...props} codec={codec.data} />;
}

interface LoadedProps extends XmlAreaProps {
  readonly codec: typeof import('../../storage/xml-documents.ts');
}

function Loaded({ family, text, stored, onChange, xmlRef, area, isReadOnly, codec }: LoadedProps) {
  const [first] = useState(() => codec.toXml(family, text));
  const [xml, setXml] = useState('text' in first ? first.text : '');
  const [fault, setFault] = useState('fault' in first ? first.fault : undefined);
  const isEdited = useRef(false);
  xmlRef.current = xml;
  // A new text from elsewhere, such as one that was saved meanwhile.
  useEffect(() => {
    if (isEdited.current) return;
    const written = codec.toXml(family, text);
    setXml('text' in written ? written.text : '');
    setFault('fault' in written ? written.fault : undefined);
  }, [codec, family, text]);
  const change = (next: string) => {
    isEdited.current = true;
    setXml(next);
    const read = codec.fromXml(family, next, text);
    setFault('fault' in read ? read.fault : undefined);
    onChange(read);
  };
  const before = stored === undefined ? undefined : codec.toXml(family, stored);
  return (
    <>
      <TextField
        label={w.xml}
        hint={codec.headerOf(family) && w.headerField(codec.headerOf(family) ?? '')}
        value={xml}
        fault={fault}
        lines={16}
        code
        readonly={isReadOnly}
        areaRef={area}
        onChange={change}
      />
      {before !== undefined && 'text' in before && fault === undefined && (
        <Diff before={before.text} after={xml} />
      )}
    </>
  );
}
