import type { Account } from './account.ts';

/** Programs that would wait for keys write straight through; agents can set others with `export`. */
const NO_PAGER: Readonly<Record<string, string>> = {
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: 'cat',
};

/** Where none is set, or an empty one, with which nothing is found. */
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Things of the server's own terminal or start that mean nothing in a sandbox shell. */
const NOT_INHERITED = [
  'COLUMNS',
  'LINES',
  'TERMCAP',
  'STY',
  'TMUX',
  'TMUX_PANE',
  'WINDOW',
  'WINDOWID',
  'OLDPWD',
  'SHLVL',
  'BASH_ENV',
  'TMOUT',
];

/**
 * The environment of the sandbox's shells: the server's own without its secrets (`base`), with a UTF-8 locale, a terminal type, no
 * pagers, and the account's identity.
 */
export function childEnvironment(
  base: Readonly<Record<string, string>>,
  account: Account,
  isSwitched: boolean,
): Record<string, string> {
  const env: Record<string, string> = { ...base, ...NO_PAGER, ...locale(base) };
  for (const name of NOT_INHERITED) delete env[name];
  if (env['LC_ALL'] === '') delete env['LC_ALL'];
  env['TERM'] = 'xterm-256color';
  const identity = { HOME: account.home, USER: account.name, LOGNAME: account.name };
  // Under the server's own account, what it was started with stands.
  Object.assign(env, isSwitched ? identity : { ...identity, ...picked(env, Object.keys(identity)) });
  env['SHELL'] = '/bin/bash';
  env['PATH'] ||= DEFAULT_PATH;
  return env;
}

/** Keeps a UTF-8 locale and replaces any other. */
function locale(base: Readonly<Record<string, string>>): Record<string, string> {
  const effective = base['LC_ALL'] || base['LC_CTYPE'] || base['LANG'] || '';
  if (/utf-?8/i.test(effective)) return {};
  return { LANG: 'C.UTF-8', LC_CTYPE: 'C.UTF-8', LC_ALL: '' };
}

function picked(env: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}
