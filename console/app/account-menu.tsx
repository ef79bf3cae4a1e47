/** The menu of the caller: who it is, theme, language, log-out. */
import { useState } from 'preact/hooks';
import { chooseOther, type Language, language, languages, t } from '../text/text.ts';
import { Icon } from '../ui/icons.tsx';
import { Menu, MenuButton, MenuChoice } from '../ui/menu.tsx';
import { type Session, useSession } from './session.tsx';
import { applyTheme, currentTheme, themes } from './theme.ts';

/** The account, and the last part of the ARN: the user, or `root`, of which each account has one. */
const nameOf = ({ account, principal }: Session): string =>
  `${account} / ${principal.split(/[:/]/).at(-1) ?? principal}`;

export function AccountMenu({ onHelp }: { readonly onHelp: () => void }) {
  const { session, logOut } = useSession();
  const [theme, setTheme] = useState(currentTheme);
  return (
    <Menu
      label={`${t.shell.account}: ${nameOf(session)}`}
      button={
        <>
          <Icon name="user" />
          <bdi class="account-name" title={session.principal}>
            {nameOf(session)}
          </bdi>
        </>
      }
    >
      <div class="menu-head">
        <bdi>{nameOf(session)}</bdi>
        <div class="code">{session.principal}</div>
        <div class="quiet code">{session.accessKey}</div>
      </div>
      <MenuChoice
        label={t.shell.theme}
        value={theme}
        options={themes.map((each) => [each, t.shell.themes[each]] as const)}
        onChange={(next) => {
          applyTheme(next);
          setTheme(next);
        }}
      />
      <MenuChoice
        label={t.shell.language}
        value={language}
        options={Object.entries(languages) as [Language, string][]}
        onChange={chooseOther}
      />
      <MenuButton icon="info" onClick={onHelp}>
        {t.shell.keys} <kbd>?</kbd>
      </MenuButton>
      <MenuButton icon="logOut" onClick={() => logOut().catch(() => {})}>
        {t.shell.logOut}
      </MenuButton>
    </Menu>
  );
}
