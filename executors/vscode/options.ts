/** What the VS Code server needs to know (V0 §1.6). */
export interface VscodeOptions {
  /** Where people reach it; undefined: off. */
  readonly port: number | undefined;
  /** Directory it opens. */
  readonly directory: string;
  /** Gets `.vscode/settings.json`, unless it has one. */
  readonly settingsDirectory: string;
  /** Path before its URLs, e.g. `/RUNTIME_ID/vscode`. */
  readonly basePath: string | undefined;
  /** Why this user gets none, in words for a person. */
  readonly refusal: string | undefined;
  /** Account to run as; undefined keeps the server's own. */
  readonly account: { readonly uid: number; readonly gid: number } | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** For the file with the token; private to the account. */
  readonly runtimeDir: string;
  readonly startLimitMs: number;
  readonly onLog: (text: string) => void;
}

/** The base path of a server that is reached below `/RUNTIME_ID` of a public address (V0 §1.3). */
export function basePathOf(
  given: string | undefined,
  runtimeUrl: string | undefined,
  runtimeId: string | undefined,
): string | undefined {
  if (given !== undefined) return given;
  if (runtimeUrl === undefined || runtimeId === undefined || !URL.canParse(runtimeUrl)) return undefined;
  const { pathname } = new URL(runtimeUrl);
  const prefix = `/${runtimeId}`;
  return pathname === prefix || pathname.startsWith(`${prefix}/`) ? `${prefix}/vscode` : undefined;
}
