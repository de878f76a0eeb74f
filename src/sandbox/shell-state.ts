/** What a shell of the sandbox's user hands on to other kinds of session: where it is, and what it exports. */
export interface ShellState {
  /** The directory after its last command. */
  readonly cwd: string;
  /** Its exported variables, as bash writes them with `declare -px`. */
  readonly exports: string;
}

/** The shell of that session name, or the default one. */
export type ShellStates = (session: string) => ShellState;

/** Variables that belong to the shell that has them. */
const OWN_VARIABLES: ReadonlySet<string> = new Set([
  'PWD',
  'OLDPWD',
  'SHLVL',
  '_',
  'SHELLOPTS',
  'BASHOPTS',
  'TERM',
  'COLUMNS',
  'LINES',
  'PS1',
  'PS2',
  'PS4',
  'PROMPT_COMMAND',
]);

/** Whether a variable says something about the shell that has it, and nothing to others. */
export function isShellOwn(name: string): boolean {
  return OWN_VARIABLES.has(name);
}

const DECLARATION =
  /^(?:declare -[A-Za-z]*x[A-Za-z]*|export) ([A-Za-z_]\w*)(?:=("(?:[^"\\]|\\[^])*"|\$'(?:[^'\\]|\\[^])*'|[^\n]*))?$/gm;

/** Reads the output of `declare -px`: values by name, without arrays, functions and what belongs to the shell itself. */
export function exportedVariables(declarations: string): Map<string, string> {
  const variables = new Map<string, string>();
  for (const [, name = '', value] of declarations.matchAll(DECLARATION)) {
    // Without a value it is marked for export, and no child sees it.
    if (value !== undefined && !OWN_VARIABLES.has(name) && !value.startsWith('(')) variables.set(name, unquoted(value));
  }
  return variables;
}

function unquoted(text: string): string {
  if (text.startsWith('"')) return text.slice(1, -1).replaceAll(/\\(["\\$`\n])/g, '$1');
  if (text.startsWith("$'")) return text.slice(2, -1).replaceAll(ANSI_C_ESCAPE, decodeEscape);
  return text;
}

const ANSI_C_ESCAPE = /\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|([^]))/g;

const ESCAPES: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  e: '\u001b',
  E: '\u001b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

function decodeEscape(_: string, octal?: string, hex?: string, character = ''): string {
  if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
  if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
  return ESCAPES[character] ?? character;
}
