/** May a caller do something in the bucket, and which statement decides it? Nothing is executed. */
import { useState } from 'preact/hooks';
import { type Answer, call } from '../../app/client.ts';
import { useSearchState } from '../../app/url.ts';
import { Chip } from '../../ui/chip.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { w } from './words.ts';

type Decision = Answer<'ExplainDecision'>;
type Statement = Decision['statements'][number];

const columns: readonly Column<Statement>[] = [
  {
    id: 'statement',
    head: w.decides,
    cell: ({ policy, statement, sid }) => (
      <bdi>
        {policy} · {sid ?? statement}
      </bdi>
    ),
  },
  { id: 'effect', head: w.effect, cell: ({ effect }) => effect },
  { id: 'outcome', head: w.outcome, cell: ({ outcome }) => <bdi>{outcome}</bdi> },
];

export function Check({ bucket }: { readonly bucket: string }) {
  const [search, setSearch] = useSearchState();
  const { accessKey = '', action = 's3:GetObject', key = '' } = search;
  const [decision, setDecision] = useState<Decision>();
  const change = (name: string) => (value: string) => {
    setDecision(undefined);
    setSearch({ [name]: value });
  };
  const ask = async () => {
    const body = {
      bucket,
      action,
      ...(accessKey === '' ? {} : { accessKey }),
      ...(key === '' ? {} : { key }),
    };
    setDecision(await call('ExplainDecision', { body }));
  };
  return (
    <Card title={w.check}>
      <div class="card-line stack">
        <Form submit={w.ask} disabled={action === ''} onSubmit={ask}>
          {(faultOf) => (
            <div class="check-fields">
              <TextField
                label={w.accessKey}
                hint={w.accessKeyHint}
                value={accessKey}
                onChange={change('accessKey')}
                fault={faultOf('accessKey')}
                code
              />
              <TextField
                label={w.action}
                hint={w.checkHint}
                value={action}
                onChange={change('action')}
                fault={faultOf('action')}
                code
              />
              <TextField label={w.key} value={key} onChange={change('key')} fault={faultOf('key')} code />
            </div>
          )}
        </Form>
        {decision !== undefined && <Decided decision={decision} />}
      </div>
    </Card>
  );
}

function Decided({ decision: { allowed, reason, statements } }: { readonly decision: Decision }) {
  return (
    <div class="stack" role="status">
      <p dir="auto">
        <Chip tone={allowed ? 'good' : 'bad'}>{allowed ? w.allowed : w.denied}</Chip> {reason}
      </p>
      {statements.length === 0 ? (
        <p class="quiet">{w.noStatements}</p>
      ) : (
        <ShortTable
          label={w.decides}
          columns={columns}
          rows={statements}
          rowKey={({ policy, statement }) => `${policy} ${statement}`}
        />
      )}
    </div>
  );
}
