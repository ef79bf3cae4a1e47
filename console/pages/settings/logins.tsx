/** Log-ins of the console, each with a button that ends it: of all callers for Settings, of one access key for My account. */
import type { ComponentChildren } from 'preact';
import type { Answer } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Button } from '../../ui/form.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Failure, Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

export type Login = Answer<'ListLogins'>['logins'][number];

interface LoginsProps {
  readonly title: string;
  /** Default: the log-ins of all callers. */
  readonly accessKey?: string;
  readonly mayRevoke: boolean;
  readonly columns: readonly Column<Login>[];
  readonly children: (table: {
    readonly label: string;
    readonly columns: readonly Column<Login>[];
    readonly rows: readonly Login[];
    readonly rowKey: (row: Login) => string;
  }) => ComponentChildren;
}

export function Logins({ title, accessKey, mayRevoke, columns, children }: LoginsProps) {
  const query = accessKey === undefined ? {} : { accessKey };
  const logins = useAdmin('ListLogins', { query }, { everyMs });
  const revoke = useChange('RevokeLogin', ['ListLogins']);
  const revokeColumn: Column<Login> = {
    id: 'revoke',
    head: w.revoke,
    cell: ({ id }) => (
      <Button kind="link" onClick={() => revoke.mutate({ path: { id } })}>
        {w.revoke}
      </Button>
    ),
    align: 'end',
  };
  return (
    <Card title={title}>
      <Reading query={logins} rows={2}>
        {(found) =>
          children({
            label: title,
            columns: mayRevoke ? [...columns, revokeColumn] : columns,
            rows: found.logins,
            rowKey: ({ id }) => id,
          })
        }
      </Reading>
      {revoke.error && <Failure error={revoke.error} />}
    </Card>
  );
}
