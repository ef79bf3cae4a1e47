/** Why: from a refusal, an object or a caller to the statement that decides, and an edit that is tried before it is saved. */
import { useAllowed } from '../../app/allowed.ts';
import { t } from '../../text/text.ts';
import { Denied } from '../../ui/forbidden.tsx';
import { PageHead } from '../../ui/tabs.tsx';
import { AskWhy } from './question.tsx';
import { w } from './words.ts';

export default function WhyPage() {
  const allowed = useAllowed(['ExplainDecision']);
  const may = allowed('ExplainDecision');
  return (
    <>
      <PageHead title={t.pages.why} answer={w.lead} />
      {may === true && <AskWhy />}
      {may === false && <Denied action="admin:ExplainDecision" />}
    </>
  );
}
