import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import * as z from 'zod';
import { negated, parseArgv, UsageError, type OptionKind, type OptionSpec, type ParsedArgv } from './argv.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type ConfigResult =
  | { readonly kind: 'run'; readonly config: Config; readonly warnings: readonly string[] }
  | { readonly kind: 'print'; readonly text: string }
  | { readonly kind: 'error'; readonly message: string };

/** The module name in a command that an OpenHands V0 client builds; our own arguments follow it (V0 §1.2). */
const V0_MODULE = 'openhands.runtime.action_execution_server';

const DEFAULT_PORT = '8000';
const DEFAULT_HOST = '127.0.0.1';
/** V0 listens on every address. */
const V0_DEFAULT_HOST = '0.0.0.0';

const DEFAULT_SECRET_ENV = ['*KEY*', '*TOKEN*', '*SECRET*', '*PASSWORD*'] as const;

export const BUILTIN_PLUGINS = ['agent_skills', 'jupyter', 'vscode'] as const;

/** Python's level names stand beside pino's: V0 clients set LOG_LEVEL to them. */
const LOG_LEVELS = new Map([
  ['fatal', 'fatal'],
  ['critical', 'fatal'],
  ['error', 'error'],
  ['warn', 'warn'],
  ['warning', 'warn'],
  ['info', 'info'],
  ['debug', 'debug'],
  ['trace', 'trace'],
  ['notset', 'trace'],
  ['silent', 'silent'],
] as const);

const TRUE_WORDS: readonly string[] = ['1', 'true', 't', 'yes', 'y', 'on'];
const FALSE_WORDS: readonly string[] = ['0', 'false', 'f', 'no', 'n', 'off'];

const SIZE_UNITS = new Map([
  ['', 1],
  ['k', 2 ** 10],
  ['m', 2 ** 20],
  ['g', 2 ** 30],
]);

/** Node's timers fire at once when asked to wait longer than 2^31-1 ms. */
const LONGEST_TIMER_SECONDS = 2_147_483;

const HIGHEST_UID = 2 ** 32 - 2;

/** A leaf of the configuration: text from a flag or variable in, typed value out. */
function parsed<T>(expectation: string, parse: (text: string) => T | undefined) {
  return z.string().transform((text, context): T => {
    const value = parse(text.trim());
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: `expected ${expectation}, got ${quoted(text)}` });
    return z.NEVER;
  });
}

function integer(min: number, max: number) {
  return parsed(`an integer from ${min} to ${max}`, (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN;
    return value >= min && value <= max ? value : undefined;
  });
}

/** Seconds outside, milliseconds inside. */
function seconds() {
  return integer(1, LONGEST_TIMER_SECONDS).transform((value) => value * 1000);
}

/** Hours outside, milliseconds inside. */
function hours() {
  return integer(1, 1_000_000).transform((value) => value * 3_600_000);
}

function size() {
  return parsed('a positive size such as 65536, 512K, 64MiB or 1G', (text) => {
    const [, digits, unit = ''] = /^(\d+)\s*([kmg]?)(?:i?b)?$/i.exec(text) ?? [];
    const bytes = Number(digits) * (SIZE_UNITS.get(unit.toLowerCase()) ?? NaN);
    return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : undefined;
  });
}

function boolean() {
  return parsed(`one of ${[...TRUE_WORDS, ...FALSE_WORDS].join(' ')}`, (text) => {
    const word = text.toLowerCase();
    if (TRUE_WORDS.includes(word)) return true;
    return FALSE_WORDS.includes(word) ? false : undefined;
  });
}

function choice<const Words extends readonly string[]>(words: Words) {
  return parsed<Words[number]>(`one of ${words.join(', ')}`, (text) =>
    words.find((word) => word === text.toLowerCase()),
  );
}

function matching(expectation: string, pattern: RegExp) {
  return parsed(expectation, (text) => (pattern.test(text) ? text : undefined));
}

/** Names are looked up when the server listens; what looks like an address must be one. */
function hostName() {
  return parsed('an IP address or host name', (text) => {
    if (!/^[\w.:%-]+$/.test(text)) return undefined;
    const isAddress = /^[\d.]+$/.test(text) || text.includes(':');
    return isAddress && isIP(text) === 0 ? undefined : text;
  });
}

function absolutePath() {
  return parsed('an absolute path', (text) => (isAbsolute(text) ? text : undefined));
}

function logLevel() {
  const levels = [...new Set(LOG_LEVELS.values())];
  const names: ReadonlyMap<string, (typeof levels)[number]> = LOG_LEVELS;
  return parsed(`one of ${levels.join(', ')}`, (text) => names.get(text.toLowerCase()));
}

function accountName() {
  return matching('a user or group name of at most 32 letters, digits, "_", "." and "-"', /^[A-Za-z_][\w.-]{0,31}$/);
}

function groupNameOrId() {
  return matching('a group name or number', /^\w[\w.-]{0,31}$/);
}

/** As a browser sends it: lower case, without a default port and without a path. */
function origin() {
  return parsed('an origin such as https://example.org:8443, without a path', (text) => {
    if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+$/i.test(text)) return undefined;
    if (!URL.canParse(text)) return undefined;
    const canonical = new URL(text).origin;
    return canonical === 'null' ? text.toLowerCase() : canonical;
  });
}

/** Without a slash at the end. */
function httpAddress() {
  return parsed('an address such as http://127.0.0.1:8888', (text) =>
    /^https?:\/\//i.test(text) && URL.canParse(text) ? text.replace(/[?#].*$/, '').replace(/\/+$/, '') : undefined,
  );
}

function builtinPlugin() {
  return z.enum(BUILTIN_PLUGINS, {
    error: (issue) =>
      `Plugin ${quoted(String(issue.input)).slice(1, -1)} not found; choose from ${BUILTIN_PLUGINS.join(', ')}`,
  });
}

const LimitsSchema = z
  .strictObject({
    maxBodyBytes: size(),
    maxSessions: integer(1, 1_000_000),
    maxActionsInFlight: integer(1, 1_000_000),
    maxOutputFileBytes: size(),
    maxOutputTotalBytes: size(),
    maxOutputEventBytes: size(),
    maxUnzipBytes: size(),
    maxUnzipRatio: integer(1, 1_000_000),
    maxUnzipEntries: integer(1, 10_000_000),
    maxConnections: integer(1, 1_000_000),
    maxSubscribers: integer(0, 1_000_000),
    keepAliveMs: seconds(),
    bodyIdleMs: seconds(),
  })
  .readonly();

/** The event log's retention. */
const LogSchema = z.strictObject({ maxBytes: size(), maxAgeMs: hours() }).readonly();

const BashSchema = z
  .strictObject({
    multiCommand: choice(['reject', 'run']),
    /** Whole seconds: V0's timeout text prints them as an integer. */
    noChangeTimeoutMs: seconds(),
  })
  .readonly();

const JupyterSchema = z
  .strictObject({
    url: httpAddress().optional(),
    token: z.string(),
    python: z.string().optional(),
    warm: integer(0, 64),
  })
  .readonly();

const BrowserSchema = z
  .strictObject({
    enabled: boolean(),
    start: choice(['lazy', 'eager']),
    path: absolutePath().optional(),
    mode: choice(['shared', 'process', 'pool']),
    poolSize: integer(1, 1000),
    maxAgeMs: seconds(),
    maxMemoryBytes: size(),
    ignoreCertificates: boolean(),
    exposeCdp: boolean(),
    extraArguments: z.array(matching('an argument of Chromium such as --lang=de', /^--/)).readonly(),
    evalEnv: matching('the name of an evaluation environment', /\S/).optional(),
  })
  .readonly();

/** What only V0's launchers set (V0 §1.3). */
const V0Schema = z
  .strictObject({
    suToUser: boolean(),
    runtimeUsername: accountName().optional(),
    sandboxGroup: groupNameOrId(),
    /** The name of the user who started us, by `USER`. */
    launchedBy: z.string().optional(),
    localRuntime: boolean(),
    repoPath: z.string().optional(),
    initPluginTimeoutMs: seconds(),
    /** Not a port: no VS Code, but no reason to refuse to start (V0 §1.6); Kubernetes may set `tcp://…` here. */
    vscodePort: integer(1, 65_535).optional().catch(undefined),
    vscodeDir: absolutePath(),
    workspaceBase: absolutePath(),
    vscodeBasePath: z.string().optional(),
    runtimeUrl: z.string().optional(),
    runtimeId: z.string().optional(),
    maxMemoryGb: integer(1, 1_048_576).optional(),
    memoryMonitor: boolean(),
  })
  .readonly();

const ConfigSchema = z
  .strictObject({
    port: integer(0, 65_535),
    host: hostName(),
    workingDir: absolutePath(),
    stateDir: absolutePath(),
    plugins: z.array(builtinPlugin()).readonly(),
    pluginPaths: z.array(absolutePath()).readonly(),
    username: accountName().optional(),
    userId: integer(0, HIGHEST_UID),
    confine: z.array(absolutePath()).readonly(),
    logLevel: logLevel(),
    allowOrigins: z.array(origin()).readonly(),
    apiKeys: z.array(z.string()).readonly(),
    browser: BrowserSchema,
    bash: BashSchema,
    jupyter: JupyterSchema,
    limits: LimitsSchema,
    log: LogSchema,
    /** Names of variables whose values are masked; `*` stands for any characters. */
    secretEnv: z.array(z.string()).readonly(),
    v0: V0Schema,
    childEnv: z.record(z.string(), z.string()).readonly(),
  })
  .superRefine(({ browser }, context) => {
    if (browser.evalEnv === undefined) return;
    context.addIssue({
      code: 'custom',
      path: ['browser', 'evalEnv'],
      message: browser.enabled
        ? `${quoted(browser.evalEnv)} cannot be served: goals and rewards of evaluation environments are computed by BrowserGym's own ` +
          'Python tasks, which this server does not contain; drop this option for a browser without a task'
        : 'Browser environment is not enabled in config, but browsergym_eval_env is set; drop this or --no-enable-browser',
    });
  })
  .readonly();

/** The whole configuration, frozen at every level. */
export type Config = z.infer<typeof ConfigSchema>;

/** One row of the help. */
interface Row {
  /** The positional has a name without dashes. */
  readonly flag?: string;
  readonly short?: string;
  readonly kind?: OptionKind;
  readonly placeholder?: string;
  readonly env?: string;
  /** Text, as a person would write it; absent where the value is optional, a list, or made from others. */
  readonly fallback?: string;
  /** The default in words, for the help only. */
  readonly fallbackText?: string;
  readonly help: string;
}

interface Setting extends Row {
  /** Where the value goes in Config, dotted. */
  readonly path: string;
  /** A relative path is taken from the current directory. */
  readonly isPath?: boolean;
}

const SETTINGS: readonly Setting[] = [
  {
    path: 'port',
    flag: 'PORT',
    env: 'ACTIOND_PORT',
    fallback: DEFAULT_PORT,
    help: 'TCP port to listen on; 0 takes any free one',
  },
  {
    path: 'host',
    flag: '--host',
    placeholder: 'ADDRESS',
    env: 'ACTIOND_HOST',
    fallbackText: DEFAULT_HOST,
    help: 'address to listen on',
  },
  {
    path: 'workingDir',
    flag: '--working-dir',
    placeholder: 'DIR',
    fallbackText: 'the current directory',
    help: 'where shells start; absolute',
  },
  {
    path: 'stateDir',
    flag: '--state-dir',
    placeholder: 'DIR',
    env: 'ACTIOND_STATE_DIR',
    fallbackText: '$XDG_STATE_HOME/actiond/PORT',
    isPath: true,
    help: 'where the event log and long outputs are kept',
  },
  {
    path: 'plugins',
    flag: '--plugins',
    kind: 'list',
    placeholder: 'NAME...',
    fallbackText: 'none',
    help: `built-in plugins: ${BUILTIN_PLUGINS.join(', ')}`,
  },
  {
    path: 'pluginPaths',
    flag: '--plugin',
    kind: 'append',
    placeholder: 'PATH',
    fallbackText: 'none',
    isPath: true,
    help: 'module of an executor; repeatable',
  },
  {
    path: 'username',
    flag: '--username',
    placeholder: 'NAME',
    fallbackText: 'the user who starts the server',
    help: 'user that shells and kernels run as',
  },
  {
    path: 'userId',
    flag: '--user-id',
    placeholder: 'N',
    fallback: '1000',
    help: 'uid for --username if that user does not exist yet',
  },
  {
    path: 'confine',
    flag: '--confine',
    kind: 'list',
    placeholder: 'DIR...',
    fallbackText: 'everywhere',
    isPath: true,
    help: 'the only directories that file actions and endpoints may touch, links resolved; commands are not confined',
  },
  {
    path: 'browser.enabled',
    flag: '--enable-browser',
    kind: 'toggle',
    fallback: 'true',
    help: 'serve browser actions',
  },
  {
    path: 'browser.start',
    flag: '--browser-start',
    placeholder: 'lazy|eager',
    env: 'ACTIOND_BROWSER_START',
    fallback: 'lazy',
    help: 'start the browser with the first action, or with the server',
  },
  {
    path: 'browser.path',
    flag: '--browser-path',
    placeholder: 'FILE',
    env: 'ACTIOND_BROWSER_PATH',
    fallbackText: 'chromium or chrome on the PATH',
    isPath: true,
    help: 'the browser, a Chromium',
  },
  {
    path: 'browser.mode',
    flag: '--browser-mode',
    placeholder: 'shared|process|pool',
    fallback: 'shared',
    help: 'one browser for all sessions, one for each, or at most --browser-pool-size',
  },
  {
    path: 'browser.poolSize',
    flag: '--browser-pool-size',
    placeholder: 'N',
    fallback: '4',
    help: 'browsers at a time with --browser-mode pool',
  },
  {
    path: 'browser.maxAgeMs',
    flag: '--browser-max-age',
    placeholder: 'SECONDS',
    fallback: '86400',
    help: 'an older browser is replaced between two actions; cookies and addresses of tabs are kept',
  },
  {
    path: 'browser.maxMemoryBytes',
    flag: '--browser-max-memory',
    placeholder: 'SIZE',
    fallback: '4GiB',
    help: 'a larger browser is replaced likewise, in bytes of all its processes',
  },
  {
    path: 'browser.ignoreCertificates',
    flag: '--browser-ignore-certificates',
    kind: 'switch',
    fallback: 'false',
    help: 'open pages whose certificate cannot be verified',
  },
  {
    path: 'browser.exposeCdp',
    flag: '--expose-cdp',
    kind: 'switch',
    fallback: 'false',
    help: 'serve the DevTools protocol of the browser under /browser/cdp, for whoever has the key',
  },
  {
    path: 'browser.extraArguments',
    flag: '--browser-arg',
    kind: 'append',
    placeholder: 'ARG',
    fallbackText: 'none',
    help: 'further argument for the browser, written --browser-arg=--lang=de; repeatable',
  },
  {
    path: 'browser.evalEnv',
    flag: '--browsergym-eval-env',
    placeholder: 'NAME',
    fallbackText: 'none',
    help: "evaluation environment of V0: refused, its tasks are BrowserGym's own",
  },
  {
    path: 'bash.multiCommand',
    flag: '--multi-command',
    placeholder: 'reject|run',
    env: 'ACTIOND_MULTI_COMMAND',
    fallback: 'reject',
    help: 'what to do with several newline-separated commands in one action',
  },
  {
    path: 'bash.noChangeTimeoutMs',
    flag: '--no-change-timeout',
    placeholder: 'SECONDS',
    env: 'NO_CHANGE_TIMEOUT_SECONDS',
    fallback: '10',
    help: 'a command silent for so many seconds is answered as still running',
  },
  {
    path: 'jupyter.python',
    flag: '--jupyter-python',
    placeholder: 'PATH',
    env: 'ACTIOND_JUPYTER_PYTHON',
    fallbackText: '.venv beside the server, else python3',
    help: 'interpreter with jupyter_kernel_gateway and ipykernel, for run_ipython',
  },
  {
    path: 'jupyter.url',
    flag: '--jupyter-url',
    placeholder: 'URL',
    env: 'ACTIOND_JUPYTER_URL',
    fallbackText: 'a server of its own',
    help: 'Jupyter server or kernel gateway that kernels are started on',
  },
  {
    path: 'jupyter.token',
    flag: '--jupyter-token',
    placeholder: 'TOKEN',
    env: 'ACTIOND_JUPYTER_TOKEN',
    fallback: '',
    help: 'token of --jupyter-url; arguments can be seen by every user of the machine, the variable cannot',
  },
  {
    path: 'jupyter.warm',
    flag: '--jupyter-warm',
    placeholder: 'N',
    fallback: '0',
    help: 'kernels kept ready for new sessions and for those whose kernel died',
  },
  {
    path: 'logLevel',
    flag: '--log-level',
    placeholder: 'LEVEL',
    env: 'LOG_LEVEL',
    fallback: 'info',
    help: 'fatal, error, warn, info, debug, trace or silent',
  },
  {
    path: 'allowOrigins',
    flag: '--allow-origin',
    kind: 'append',
    placeholder: 'ORIGIN',
    fallbackText: 'none',
    help: 'web origin whose pages may call the server; repeatable',
  },
  {
    path: 'limits.maxBodyBytes',
    flag: '--max-body-bytes',
    placeholder: 'SIZE',
    fallback: '64MiB',
    help: 'largest JSON request body, in bytes',
  },
  {
    path: 'limits.maxSessions',
    flag: '--max-sessions',
    placeholder: 'N',
    fallback: '32',
    help: 'shells, kernels and browser contexts at a time',
  },
  {
    path: 'limits.maxActionsInFlight',
    flag: '--max-actions-in-flight',
    placeholder: 'N',
    fallback: '256',
    help: 'actions queued and running at a time',
  },
  {
    path: 'limits.maxOutputFileBytes',
    flag: '--max-output-file-bytes',
    placeholder: 'SIZE',
    fallback: '64MiB',
    help: 'raw output kept of one action, in bytes',
  },
  {
    path: 'limits.maxOutputTotalBytes',
    flag: '--max-output-total-bytes',
    placeholder: 'SIZE',
    fallback: '1GiB',
    help: 'raw output kept under the state directory, in bytes',
  },
  {
    path: 'limits.maxOutputEventBytes',
    flag: '--max-output-event-bytes',
    placeholder: 'SIZE',
    fallback: '8MiB',
    help: 'live output kept in the event log of one action, in bytes',
  },
  {
    path: 'log.maxBytes',
    flag: '--max-log-bytes',
    placeholder: 'SIZE',
    fallback: '256MiB',
    help: 'event log kept under the state directory, in bytes',
  },
  {
    path: 'log.maxAgeMs',
    flag: '--max-log-age-hours',
    placeholder: 'HOURS',
    fallback: '168',
    help: 'age at which events are dropped, in hours',
  },
  {
    path: 'secretEnv',
    flag: '--secret-env',
    kind: 'append',
    placeholder: 'PATTERN',
    fallbackText: DEFAULT_SECRET_ENV.join(' '),
    help: 'variables whose values are masked everywhere, * for any characters; repeatable',
  },
  {
    path: 'limits.maxSubscribers',
    flag: '--max-subscribers',
    placeholder: 'N',
    fallback: '256',
    help: 'readers of the event stream at a time',
  },
  {
    path: 'limits.maxUnzipBytes',
    flag: '--max-unzip-bytes',
    placeholder: 'SIZE',
    fallback: '100G',
    help: 'what an uploaded archive may unpack to, at most what is free on the disk',
  },
  {
    path: 'limits.maxUnzipRatio',
    flag: '--max-unzip-ratio',
    placeholder: 'N',
    fallback: '200',
    help: 'how many times its size an archive may unpack to, beyond 256 MiB',
  },
  {
    path: 'limits.maxUnzipEntries',
    flag: '--max-unzip-entries',
    placeholder: 'N',
    fallback: '1000000',
    help: 'files, directories and links of an uploaded archive',
  },
  {
    path: 'limits.maxConnections',
    flag: '--max-connections',
    placeholder: 'N',
    fallback: '1024',
    help: 'open sockets at a time',
  },
  {
    path: 'limits.keepAliveMs',
    flag: '--keep-alive-seconds',
    placeholder: 'SECONDS',
    fallback: '75',
    help: 'idle connections are closed after so many seconds',
  },
  {
    path: 'limits.bodyIdleMs',
    flag: '--body-idle-seconds',
    placeholder: 'SECONDS',
    fallback: '120',
    help: 'an upload may take any time, but not stand still for so many seconds',
  },
  {
    path: 'v0.initPluginTimeoutMs',
    env: 'INIT_PLUGIN_TIMEOUT',
    fallback: '120',
    help: 'seconds that all plugins together may take to start',
  },
  { path: 'v0.suToUser', env: 'SU_TO_USER', fallback: 'true', help: 'change to --username when started as root' },
  { path: 'v0.runtimeUsername', env: 'RUNTIME_USERNAME', help: 'a further user that may be changed to' },
  { path: 'v0.sandboxGroup', env: 'SANDBOX_GROUP_ID', fallback: 'root', help: 'group that owns the working directory' },
  { path: 'v0.launchedBy', env: 'USER', help: 'taken, without effect: an account that is there is used' },
  {
    path: 'v0.localRuntime',
    env: 'LOCAL_RUNTIME_MODE',
    fallback: '0',
    help: 'taken, without effect: kernels run as --username',
  },
  { path: 'v0.repoPath', env: 'OPENHANDS_REPO_PATH', help: 'taken, without effect' },
  { path: 'v0.vscodePort', env: 'VSCODE_PORT', help: 'port of VS Code; without it the plugin is off' },
  {
    path: 'v0.vscodeDir',
    env: 'WORKSPACE_MOUNT_PATH_IN_SANDBOX',
    fallback: '/workspace',
    help: 'directory VS Code opens',
  },
  {
    path: 'v0.workspaceBase',
    env: 'WORKSPACE_BASE',
    fallback: '/workspace',
    help: 'directory that gets .vscode/settings.json',
  },
  { path: 'v0.vscodeBasePath', env: 'OPENVSCODE_SERVER_BASE_PATH', help: 'base path of VS Code URLs' },
  { path: 'v0.runtimeUrl', env: 'RUNTIME_URL', help: 'public URL; a path of /RUNTIME_ID is put before VS Code URLs' },
  { path: 'v0.runtimeId', env: 'RUNTIME_ID', help: 'see RUNTIME_URL' },
  { path: 'v0.maxMemoryGb', env: 'RUNTIME_MAX_MEMORY_GB', help: 'taken, without effect, as in V0' },
  {
    path: 'v0.memoryMonitor',
    env: 'RUNTIME_MEMORY_MONITOR',
    fallback: 'false',
    help: 'taken, without effect: see /metrics',
  },
];

const INFORMATION: readonly Row[] = [
  { flag: '--help', short: '-h', kind: 'switch', help: 'print this and exit' },
  { flag: '--version', kind: 'switch', help: 'print the version and exit' },
];

/** Variables that are no setting of their own. */
const OTHER_VARIABLES: readonly Row[] = [
  { env: 'SESSION_API_KEY', fallbackText: 'none, the server is open', help: 'key that requests must carry' },
  { env: 'ACTIOND_API_KEYS', help: 'further keys, separated by commas' },
  { env: 'DEBUG', help: '1, true or yes: as LOG_LEVEL=debug' },
];

/**
 * Flags and environment to one frozen Config; a flag beats its variable, an empty variable counts as unset.
 *
 * @param argv what follows the program's name, or V0's whole command line (V0 §1.2)
 * @param cwd absolute; the default working directory, and where relative paths start
 * @param version for `--version`
 */
export function loadConfig(argv: readonly string[], env: Environment, cwd: string, version: string): ConfigResult {
  try {
    const v0Module = argv.indexOf(V0_MODULE);
    const line = parseArgv(argv.slice(v0Module + 1), optionSpecs());
    if (line.options.has('--help')) return { kind: 'print', text: helpText() };
    if (line.options.has('--version')) return { kind: 'print', text: `actiond ${version}` };
    const defaultHost = v0Module === -1 ? DEFAULT_HOST : V0_DEFAULT_HOST;
    const config = buildConfig(line, env, cwd, defaultHost);
    return { kind: 'run', config, warnings: warningsFor(config, env) };
  } catch (error) {
    if (error instanceof UsageError) return { kind: 'error', message: error.message };
    throw error;
  }
}

function optionSpecs(): OptionSpec[] {
  return [...SETTINGS, ...INFORMATION].flatMap(({ flag, short, kind = 'value' }) =>
    flag?.startsWith('--') ? [{ flag, kind, ...(short === undefined ? {} : { short }) }] : [],
  );
}

function buildConfig(line: ParsedArgv, env: Environment, cwd: string, defaultHost: string): Config {
  const [port = nonEmpty(env['ACTIOND_PORT']) ?? DEFAULT_PORT, unexpected] = line.positionals;
  if (unexpected !== undefined)
    throw new UsageError(`Unexpected argument ${quoted(unexpected)} after PORT; see --help`);
  const defaults = { host: defaultHost, workingDir: cwd, stateDir: defaultStateDir(port, env) };
  const effectiveEnv = withDebugLevel(env);
  const values = SETTINGS.map(
    (setting) => [setting.path, settingValue(setting, line, effectiveEnv, cwd, defaults)] as const,
  );
  const secretEnv = line.options.get('--secret-env') ?? DEFAULT_SECRET_ENV;
  const raw = nested([...values, ['secretEnv', secretEnv], ['apiKeys', apiKeys(env)], ['childEnv', childEnv(env)]]);
  const result = ConfigSchema.safeParse(raw);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  if (issue === undefined) throw result.error;
  throw new UsageError(`${sourceName(issue.path, line)}: ${issue.message}`);
}

/** The text of a setting, before validation: flag, else variable, else default. */
function settingValue(
  setting: Setting,
  line: ParsedArgv,
  env: Environment,
  cwd: string,
  defaults: Readonly<Record<string, string>>,
): string | readonly string[] | undefined {
  const given = setting.path === 'port' ? line.positionals : (line.options.get(setting.flag ?? '') ?? []);
  const toPath = (text: string) => (setting.isPath && text !== '' ? resolve(cwd, text) : text);
  if (setting.kind === 'list' || setting.kind === 'append') return given.map(toPath);
  const text = given[0] ?? nonEmpty(env[setting.env ?? '']) ?? setting.fallback ?? defaults[setting.path];
  return text === undefined ? undefined : toPath(text);
}

/** `limits.maxSessions` becomes `{limits: {maxSessions}}`; one level is all that Config has. */
function nested(entries: readonly (readonly [path: string, value: unknown])[]): Record<string, unknown> {
  const top: Record<string, unknown> = {};
  const groups: Record<string, Record<string, unknown>> = {};
  for (const [path, value] of entries) {
    const [first = '', second] = path.split('.');
    if (value === undefined) continue;
    if (second === undefined) top[first] = value;
    else (groups[first] ??= {})[second] = value;
  }
  return { ...top, ...groups };
}

/** Where a wrong value came from, in the words of the person who wrote it. */
function sourceName(issuePath: readonly PropertyKey[], line: ParsedArgv): string {
  const path = issuePath.filter((key) => typeof key === 'string').join('.');
  const { flag, env } = SETTINGS.find((setting) => setting.path === path) ?? {};
  const isGiven = path === 'port' ? line.positionals.length > 0 : flag !== undefined && line.options.has(flag);
  const isFromEnv = env !== undefined && !isGiven;
  return (isFromEnv ? env : flag) ?? path;
}

/** V0's DEBUG outranks its LOG_LEVEL. Other words are left alone: DEBUG is many libraries' variable. */
function withDebugLevel(env: Environment): Environment {
  return /^(1|true|yes)$/i.test(env['DEBUG'] ?? '') ? { ...env, LOG_LEVEL: 'debug' } : env;
}

/** By port, because two servers must not write one log. */
function defaultStateDir(port: string, env: Environment): string {
  const number = Number(port);
  // However it is written: one port has one directory.
  const name = number === 0 ? 'any' : Number.isNaN(number) ? port : String(number);
  const xdg = env['XDG_STATE_HOME'] ?? '';
  if (isAbsolute(xdg)) return join(xdg, 'actiond', name);
  const home = env['HOME'] ?? '';
  if (isAbsolute(home)) return join(home, '.local/state/actiond', name);
  return join(tmpdir(), 'actiond-state', name);
}

/** Keys come from the environment only: arguments are visible to every user of the machine. */
function apiKeys(env: Environment): string[] {
  const keys = [
    ...keysIn('SESSION_API_KEY', env, (text) => [text]),
    ...keysIn('ACTIOND_API_KEYS', env, (text) => text.split(',')),
  ];
  return [...new Set(keys)];
}

/** Outer blanks are dropped, because no header can carry them. A variable without a key in it must not open the server. */
function keysIn(name: string, env: Environment, split: (text: string) => string[]): string[] {
  const text = env[name] ?? '';
  if (text === '') return [];
  const keys = split(text)
    .map((key) => key.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, ''))
    .filter((key) => key !== '');
  if (keys.length === 0) throw new UsageError(`${name}: expected a key, got none; unset it to run without a key`);
  for (const key of keys) {
    const problem = problemOfKey(key);
    if (problem !== undefined)
      throw new UsageError(`${name}: ${problem}, so that no request could carry the key; choose another`);
  }
  return keys;
}

function problemOfKey(key: string): string | undefined {
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(key)) return 'there is a control character within it';
  // What stands for bytes that are no UTF-8.
  return key.includes('\ufffd') ? 'it is not valid UTF-8' : undefined;
}

/** What shells inherit: our environment without our secrets, and without what `npm start` adds. */
function childEnv(env: Environment): Record<string, string> {
  const isUnderNpm = env['npm_lifecycle_event'] !== undefined;
  const child: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || isServerSecret(name) || (isUnderNpm && isNpmNoise(name))) continue;
    child[name] = isUnderNpm && name === 'PATH' ? withoutNpmDirectories(value) : value;
  }
  return child;
}

/** Whether a variable is the server's own and must not reach the sandbox. */
export function isServerSecret(name: string): boolean {
  return name.startsWith('ACTIOND_') || name.endsWith('SESSION_API_KEY');
}

function isNpmNoise(name: string): boolean {
  return name.startsWith('npm_') || name === 'INIT_CWD' || name === 'NODE' || name === 'COLOR';
}

function withoutNpmDirectories(path: string): string {
  return path
    .split(':')
    .filter((directory) => !/(\/node_modules\/\.bin|node-gyp-bin)\/?$/.test(directory))
    .join(':');
}

function warningsFor(config: Config, env: Environment): string[] {
  const warnings: string[] = [];
  if (config.apiKeys.length === 0 && !isLoopback(config.host)) {
    warnings.push(
      `Listening on ${config.host} without a key: whoever reaches port ${config.port} can run commands. ` +
        `Set SESSION_API_KEY, or pass --host ${DEFAULT_HOST}.`,
    );
  }
  const vscodePort = nonEmpty(env['VSCODE_PORT']);
  if (vscodePort !== undefined && config.v0.vscodePort === undefined) {
    warnings.push(`VSCODE_PORT: expected a port number, got ${quoted(vscodePort)}; the vscode plugin is off.`);
  }
  return warnings;
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
}

function helpText(): string {
  const options = [...SETTINGS, ...INFORMATION].flatMap((row) =>
    row.flag === undefined ? [] : [[optionSynopsis(row), helpOf(row, row.env)] as const],
  );
  const variables = [...OTHER_VARIABLES, ...SETTINGS].flatMap((row) =>
    row.env === undefined ? [] : [[row.env, row.flag === undefined ? helpOf(row) : `as ${row.flag}`] as const],
  );
  return [
    'Usage: actiond [PORT] [options]',
    '',
    'Options (--opt VALUE or --opt=VALUE; SIZE is in bytes, or with K, M, G, KiB, MiB, GiB in powers of 1024):',
    ...table(options),
    '',
    'Environment (an option beats its variable):',
    ...table(variables),
  ].join('\n');
}

function optionSynopsis({ flag = '', short, kind, placeholder }: Row): string {
  const names = [short, flag, kind === 'toggle' ? negated(flag) : undefined].filter((name) => name !== undefined);
  return placeholder === undefined ? names.join(', ') : `${names.join(', ')} ${placeholder}`;
}

function helpOf({ help, fallback, fallbackText }: Row, env?: string): string {
  const value = fallback ?? fallbackText;
  const notes = [value && `default: ${value}`, env && `env: ${env}`].filter(Boolean);
  return notes.length === 0 ? help : `${help} (${notes.join('; ')})`;
}

function table(rows: readonly (readonly [name: string, help: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, help]) => `  ${name.padEnd(width)}  ${help}`);
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

/** On one line and short, whatever it is. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
