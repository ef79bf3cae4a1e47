/**
 * The answer to a question: who may, by which statement, in which document; and a draft of that document that is tried
 * before it is saved.
 */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'preact/hooks';
import { type Question as Asked, useAllowed } from '../../app/allowed.ts';
import { type Answer, type Ask, call } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button, Form, TextField } from '../../ui/form.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Stale, useStaleCheck } from '../../ui/stale.tsx';
import { Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Time } from '../../ui/values.tsx';
import { type Place, pageOfPolicy, placeOf, questionsOf, readPolicy, savePolicy } from './policies.ts';
import { describeSession, w as inSession, Missing } from './session.tsx';
import { w } from './words.ts';

export type Question = NonNullable<Ask<'ExplainDecision'>['body']>;
type Decision = Answer<'ExplainDecision'>;
type Statement = Decision['statements'][number];
type Verdict = Pick<Decision, 'allowed' | 'reason' | 'by'>;

interface DecisionProps {
  readonly question: Question;
  readonly decision: Decision;
  /** The bucket of the question, also where a request of the audit log names it. */
  readonly bucket: string | undefined;
}

/** The policy that decides comes first. */
function policiesOf({ statements, by }: Decision): readonly string[] {
  const names = [...new Set(statements.map(({ policy }) => policy))];
  return by === undefined ? names : [by.policy, ...names.filter((name) => name !== by.policy)];
}

export function Decided({ question, decision, bucket }: DecisionProps) {
  const { caller, request, statements, by } = decision;
  return (
    <>
      <Card>
        <div class="card-line stack" role="status">
          <Sentence verdict={decision} />
          <Facts
            facts={[
              [w.caller, <bdi key="caller">{caller?.principal ?? w.anonymous}</bdi>],
              [
                w.request,
                request !== undefined && (
                  <span key="request">
                    <bdi>{request.action}</bdi> · {request.status} · <Time at={request.time} />
                  </span>
                ),
              ],
              [w.accessKey, request?.accessKey !== undefined && <Copy key="key" text={request.accessKey} />],
              [inSession.session, request?.session !== undefined && describeSession(request.session)],
            ]}
          />
          {statements.length === 0 && <p class="quiet">{w.noStatements}</p>}
          <Missing decision={decision} />
        </div>
      </Card>
      {policiesOf(decision).map((policy) => (
        <PolicyCard
          key={policy}
          policy={policy}
          place={placeOf(policy, { bucket, account: caller?.account })}
          statements={statements.filter((each) => each.policy === policy)}
          deciding={by?.policy === policy ? by.statement : undefined}
          question={question}
        />
      ))}
    </>
  );
}

const Sentence = ({ verdict: { allowed, reason } }: { readonly verdict: Verdict }) => (
  <p>
    <Chip tone={allowed ? 'good' : 'bad'}>{allowed ? w.allowed : w.denied}</Chip>{' '}
    {w.reasons[reason] ?? reason}
  </p>
);

interface PolicyProps {
  readonly policy: string;
  /** Undefined where no operation reads the document. */
  readonly place: Place | undefined;
  readonly statements: readonly Statement[];
  /** Undefined where no statement of this policy decides. */
  readonly deciding: number | undefined;
  readonly question: Question;
}

function PolicyCard({ policy, place: stored, statements, deciding, question }: PolicyProps) {
  const [isEditing, setEditing] = useState(false);
  const places =
    stored === undefined ? [] : [stored, ...(stored.kind === 'bucket' ? [{ ...stored, isOwn: true }] : [])];
  const allowed = useAllowed(places.map(questionsOf).flatMap(({ get, put }) => [get, put]));
  // By the operator API where policies allow it, otherwise as the owner of a bucket does.
  const place = places.find((each) => allowed(questionsOf(each).get) === true) ?? stored;
  const asked = place && questionsOf(place);
  const mayRead = asked !== undefined && allowed(asked.get) === true;
  const document = useQuery({
    queryKey: ['policy', place],
    queryFn: () => readPolicy(place as Place),
    enabled: mayRead,
  });
  return (
    <Card
      title={<bdi>{policy}</bdi>}
      actions={
        mayRead && (
          <div class="actions">
            <PageLink {...pageOfPolicy(place as Place)} class="button">
              {w.open}
            </PageLink>
            {!isEditing && document.data !== undefined && (
              <Button onClick={() => setEditing(true)}>{w.edit}</Button>
            )}
          </div>
        )
      }
    >
      {mayRead && !isEditing && (
        <Reading query={document} rows={4}>
          {(text) => <Document text={text} statements={statements} deciding={deciding} />}
        </Reading>
      )}
      {mayRead && isEditing && document.data !== undefined && (
        <Draft
          policy={policy}
          place={place as Place}
          stored={document.data}
          question={question}
          maySave={allowed((asked as { readonly put: Asked }).put) === true}
          onClose={() => setEditing(false)}
        />
      )}
      {!mayRead && (
        <>
          <p class="quiet card-line">{unreadable(asked?.get, allowed)}</p>
          <Statements policy={policy} statements={statements} deciding={deciding} />
        </>
      )}
    </Card>
  );
}

const unreadable = (asked: Asked | undefined, allowed: (question: Asked) => boolean | undefined): string =>
  asked === undefined
    ? w.notReadable
    : allowed(asked) === false
      ? w.forbidden(typeof asked === 'string' ? asked : asked.action)
      : '';

const Outcome = ({ outcome, isDeciding }: { readonly outcome: string; readonly isDeciding: boolean }) =>
  isDeciding ? (
    <Chip tone="accent" icon="check">
      {w.decides}
    </Chip>
  ) : (
    <Chip>{w.outcomes[outcome] ?? outcome}</Chip>
  );

type StatementsProps = Pick<PolicyProps, 'policy' | 'statements' | 'deciding'>;

function Statements({ policy, statements, deciding }: StatementsProps) {
  const columns: readonly Column<Statement>[] = [
    { id: 'statement', head: w.statement, cell: ({ statement, sid }) => <bdi>{sid ?? statement}</bdi> },
    { id: 'effect', head: w.effect, cell: ({ effect }) => effect },
    {
      id: 'outcome',
      head: w.outcome,
      cell: ({ statement, outcome, condition }) => (
        <>
          <Outcome outcome={outcome} isDeciding={statement === deciding} /> <bdi>{condition}</bdi>
        </>
      ),
    },
  ];
  return (
    <ShortTable
      label={policy}
      columns={columns}
      rows={statements}
      rowKey={({ statement }) => String(statement)}
    />
  );
}

/** Here and not in the style sheets, which every page loads. */
const marked = { borderColor: 'var(--accent)', background: 'var(--accent-soft)' };

/** The document with the outcome of each statement beside it; the one that decides is marked. */
function Document({
  text,
  statements,
  deciding,
}: Omit<StatementsProps, 'policy'> & { readonly text: string }) {
  const { Statement: parts, ...rest } = JSON.parse(text) as { readonly Statement?: unknown };
  const all = Array.isArray(parts) ? parts : [parts];
  return (
    <div class="card-line stack">
      {Object.keys(rest).length > 0 && <p class="code quiet">{JSON.stringify(rest)}</p>}
      {all.map((each, index) => {
        const found = statements.find(({ statement }) => statement === index);
        return (
          <div
            key={index}
            class={`statement document stack ${index === deciding ? 'is-deciding' : ''}`}
            style={index === deciding ? marked : {}}
          >
            <div class="code" dir="auto">
              {JSON.stringify(each, null, 2)}
            </div>
            {found !== undefined && (
              <p>
                <Outcome outcome={found.outcome} isDeciding={index === deciding} />{' '}
                <bdi class="code">{found.condition}</bdi>
              </p>
            )}
          </div>
        );
      })}
    </div>
  );
}

interface DraftProps {
  readonly policy: string;
  readonly place: Place;
  readonly stored: string;
  readonly question: Question;
  readonly maySave: boolean;
  readonly onClose: () => void;
}

/** An edit is tried before it is saved: *Save* takes the text that was tried last. */
function Draft({ policy, place, stored, question, maySave, onClose }: DraftProps) {
  const client = useQueryClient();
  const [text, setText] = useState(stored);
  const [tried, setTried] = useState<{ readonly text: string; readonly answer: Decision }>();
  const check = useStaleCheck(stored, true);
  const isTried = tried?.text === text;
  const tryIt = async () => {
    const answer = await call('ExplainDecision', {
      body: { ...question, draft: { policy, document: text } },
    });
    setTried({ text, answer });
    return false;
  };
  const save = async () => {
    if (!(await check.isCurrent(() => readPolicy(place)))) return false;
    await savePolicy(place, text);
    onClose();
    await Promise.all(
      ['ExplainDecision', 'policy', 'ListBucketConfigurations', 'GetBucket', 'GetIamPolicy', 's3'].map(
        (name) => client.invalidateQueries({ queryKey: [name] }),
      ),
    );
    return true;
  };
  return (
    <div class="card-line">
      <Form
        submit={isTried && maySave ? w.save : w.tryIt}
        disabled={isTried && (!maySave || text === stored)}
        onSubmit={isTried && maySave ? save : tryIt}
        isGuarded
        onCancel={onClose}
      >
        {(faultOf) => (
          <>
            <TextField
              label={w.draft}
              hint={w.draftHint}
              value={text}
              onChange={setText}
              fault={faultOf('document')}
              lines={16}
              code
            />
            <Stale check={check} text={text} onReload={setText} />
            {isTried && tried !== undefined && <Compared answer={tried.answer} />}
          </>
        )}
      </Form>
    </div>
  );
}

interface Side extends Verdict {
  readonly head: string;
}

const sideColumns: readonly Column<Side>[] = [
  { id: 'side', head: w.policy, cell: ({ head }) => head },
  {
    id: 'answer',
    head: w.answer,
    cell: ({ allowed }) => <Chip tone={allowed ? 'good' : 'bad'}>{allowed ? w.allowed : w.denied}</Chip>,
  },
  {
    id: 'by',
    head: w.statement,
    cell: ({ by }) => (
      <bdi>{by === undefined ? w.byNone : w.by(by.policy, by.sid ?? String(by.statement))}</bdi>
    ),
  },
  { id: 'reason', head: w.outcome, cell: ({ reason }) => w.reasons[reason] ?? reason, isMinor: true },
];

function Compared({ answer }: { readonly answer: Decision }) {
  const { draft } = answer;
  if (draft === undefined) return null;
  return (
    <div class="stack" role="status">
      <p>{draft.allowed === answer.allowed ? w.same : w.changed(draft.allowed)}</p>
      <ShortTable
        label={w.draft}
        columns={sideColumns}
        rows={[
          { ...answer, head: w.before },
          { ...draft, head: w.after },
        ]}
        rowKey={({ head }) => head}
      />
    </div>
  );
}
