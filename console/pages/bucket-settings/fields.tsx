/** The fields of a configuration, from the schema that the gateway publishes: help beside the editor. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'preact/hooks';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { describeLimits } from './limits.ts';
import { w } from './words.ts';

export interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly description?: string;
}

interface FieldRow {
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
}

/** The deepest family has six levels. */
const depthMax = 12;
function describeType(schema: Schema): string {
  const { type, enum: choices, description } = schema;
  if (choices !== undefined) return choices.join(' | ');
  if (description !== undefined) return description;
  const text = type === 'array' ? w.list : Array.isArray(type) ? type.join(' | ') : String(type ?? '');
  const limits = describeLimits(schema);
  return limits === '' ? text : `${text}, ${limits}`;
}

function rowsOf(schema: Schema, path = '', depth = 0): readonly FieldRow[] {
  if (depth > depthMax) return [];
  if (schema.items !== undefined) return rowsOf(schema.items, `${path}[]`, depth + 1);
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const at = path === '' ? name : `${path}.${name}`;
    // A list of texts is one row.
    const isList = field.items !== undefined && field.items.properties === undefined;
    const type = isList ? `${w.list}: ${describeType(field.items ?? {})}` : describeType(field);
    const row = { path: at, type, isRequired: schema.required?.includes(name) === true };
    return [row, ...(isList ? [] : rowsOf(field, at, depth + 1))];
  });
}

const columns: readonly Column<FieldRow>[] = [
  { id: 'path', head: w.field, cell: ({ path }) => <span class="code">{path}</span> },
  {
    id: 'type',
    head: w.type,
    cell: ({ type, isRequired }) => (
      <>
        {type} {isRequired && <span class="quiet">({w.isRequired})</span>}
      </>
    ),
  },
];

interface FieldsProps {
  readonly family: string;
  readonly readSchema: () => Promise<Schema>;
}

/** Read when it is opened, because a document with the schemas of all operations may have it. */
export function Fields({ family, readSchema }: FieldsProps) {
  const [isOpen, setOpen] = useState(false);
  const query = useQuery({ queryKey: ['schema', family], queryFn: readSchema, enabled: isOpen });
  return (
    <details class="fields" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{w.fields}</summary>
      {isOpen && (
        <Reading query={query}>
          {(schema) =>
            schema.properties === undefined ? (
              <p class="quiet">{schema.description}</p>
            ) : (
              <ShortTable
                label={w.fields}
                columns={columns}
                rows={rowsOf(schema)}
                rowKey={({ path }) => path}
              />
            )
          }
        </Reading>
      )}
    </details>
  );
}
