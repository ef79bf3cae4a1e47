/** A question about a caller, an action and what it is done to. Its address keeps it: a link asks it again. */
import { useAdmin } from '../../app/queries.ts';
import { type Search, useSearchState } from '../../app/url.ts';
import { Form, TextField } from '../../ui/form.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Decided, type Question } from './decision.tsx';
import { w } from './words.ts';

const fields = ['accessKey', 'principal', 'action', 'bucket', 'key', 'accessPoint', 'resource'] as const;
type Field = (typeof fields)[number];

interface AskProps {
  /** The tab of a bucket asks about that bucket only. */
  readonly bucket?: string;
}

/** A request of the audit log is a question by itself; a tenant asks about it in a bucket of its own. */
function readQuestion(search: Search, bucket: string | undefined): Question | undefined {
  const { requestId, asked } = search;
  if (requestId !== undefined) return { requestId, ...(bucket === undefined ? {} : { bucket }) };
  if (asked === undefined) return undefined;
  const given = fields.flatMap((name) => {
    const value = (name === 'bucket' ? bucket : undefined) ?? search[name];
    return value === undefined || value === '' ? [] : [[name, value]];
  });
  return Object.fromEntries(given) as Question;
}

export function AskWhy({ bucket }: AskProps) {
  const [search, setSearch] = useSearchState();
  const question = readQuestion(search, bucket);
  const { data, error, refetch } = useAdmin(
    'ExplainDecision',
    { body: question ?? {} },
    { enabled: question !== undefined },
  );
  const change = (name: Field) => (value: string) =>
    setSearch({ [name]: value, asked: undefined, requestId: undefined });
  const { action = 's3:GetObject' } = search;
  const field = (name: Field, hint?: string, value = search[name] ?? '') => (
    <TextField
      label={w[name]}
      {...(hint === undefined ? {} : { hint })}
      value={value}
      onChange={change(name)}
      code
    />
  );
  return (
    <>
      <Card title={w.check}>
        <div class="card-line stack">
          <Form
            submit={w.ask}
            disabled={action === ''}
            onSubmit={async () => {
              setSearch({ action, asked: '1', requestId: undefined }, { push: true });
              if (question !== undefined) await refetch();
            }}
          >
            {() => (
              <div class="check-fields">
                {field('accessKey', w.accessKeyHint)}
                {field('principal', w.principalHint)}
                {field('action', w.nothing, action)}
                {bucket === undefined && field('bucket')}
                {field('key')}
                {bucket !== undefined && field('accessPoint', w.accessPointHint)}
                {bucket === undefined && field('resource', w.resourceHint)}
              </div>
            )}
          </Form>
        </div>
      </Card>
      {error !== null && <Failure error={error} />}
      {question !== undefined && data === undefined && error === null && <Skeleton rows={3} />}
      {question !== undefined && data !== undefined && error === null && (
        <Decided
          question={question}
          decision={data}
          bucket={bucket ?? question.bucket ?? data.request?.bucket}
        />
      )}
    </>
  );
}
