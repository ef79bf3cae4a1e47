/** The temporary credentials of a past request: what limited them, and what the answer about it leaves out. */
import type { Answer } from '../../app/client.ts';
import { plural } from '../../text/plural.ts';
import { words } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Icon } from '../../ui/icons.tsx';

// Here and not in the words of the page, which other pages load too.
export const w = words({
  en: {
    session: 'Temporary credentials',
    ofLogin: 'of a page of the console: the storage protocol only',
    ofSts: 'of STS',
    withPolicy: 'with a session policy',
    withManaged: (count: number) => plural(count, 'managed session policy', 'managed session policies'),
    withMfa: 'with MFA',
    missing: {
      session:
        'The audit log has nothing about the session of this request. The answer is that of its user or role: the session may have been allowed less.',
      'session-policy':
        'The session policy of this request is not stored. The answer is without it and may differ. The SHA-256 of its text:',
      'session-tags': 'The session had tags of its own, which are not stored. The answer is without them.',
      'further-action':
        'The request was refused. It needed a further action, such as s3:GetObject for a condition or s3:BypassGovernanceRetention, or policies have changed since: ask about that action.',
    },
  },
  de: {
    session: 'Temporäre Zugangsdaten',
    ofLogin: 'einer Seite der Konsole: nur das Speicherprotokoll',
    ofSts: 'von STS',
    withPolicy: 'mit einer Sitzungsrichtlinie',
    withManaged: (count) => plural(count, 'verwaltete Sitzungsrichtlinie', 'verwaltete Sitzungsrichtlinien'),
    withMfa: 'mit MFA',
    missing: {
      session:
        'Das Audit-Protokoll weiß nichts über die Sitzung dieser Anfrage. Die Antwort ist die ihres Benutzers oder ihrer Rolle: der Sitzung war vielleicht weniger erlaubt.',
      'session-policy':
        'Die Sitzungsrichtlinie dieser Anfrage ist nicht gespeichert. Die Antwort ist ohne sie und kann abweichen. Der SHA-256 ihres Textes:',
      'session-tags': 'Die Sitzung hatte eigene Tags, die nicht gespeichert sind. Die Antwort ist ohne sie.',
      'further-action':
        'Die Anfrage wurde abgelehnt. Sie brauchte eine weitere Aktion, etwa s3:GetObject für eine Bedingung oder s3:BypassGovernanceRetention, oder Richtlinien haben sich seither geändert: Frage nach dieser Aktion.',
    },
  },
});

type Decision = Answer<'ExplainDecision'>;
type Session = NonNullable<NonNullable<Decision['request']>['session']>;

/** What limited the session, in words. */
export const describeSession = ({ isOfLogin, policySha256, managed = [], isMfa }: Session): string =>
  [
    isOfLogin === true ? w.ofLogin : w.ofSts,
    ...(policySha256 === undefined ? [] : [w.withPolicy]),
    ...(managed.length === 0 ? [] : [w.withManaged(managed.length)]),
    ...(isMfa === true ? [w.withMfa] : []),
  ].join(' · ');

export const Missing = ({ decision: { missing = [], request } }: { readonly decision: Decision }) => (
  <>
    {missing.map((part) => (
      <p key={part} class="tone-warn">
        <Icon name="warning" /> {w.missing[part]}
        {part === 'session-policy' && (
          <>
            {' '}
            <Copy text={request?.session?.policySha256 ?? ''} />
          </>
        )}
      </p>
    ))}
  </>
);
