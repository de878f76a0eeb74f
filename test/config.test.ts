import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { loadConfig, type Config, type Environment } from '../src/config.ts';

const HOME = { HOME: '/home/me' };

function load(line: string, env: Environment = HOME) {
  return loadConfig(line.split(' ').filter(Boolean), env, '/cwd', '1.2.3');
}

function run(line: string, env?: Environment): { config: Config; warnings: readonly string[] } {
  const result = load(line, env);
  if (result.kind !== 'run') throw new Error(JSON.stringify(result));
  return result;
}

function configOf(line: string, env?: Environment): Config {
  return run(line, env).config;
}

function errorOf(line: string, env?: Environment): string {
  const result = load(line, env);
  if (result.kind !== 'error') throw new Error(JSON.stringify(result));
  return result.message;
}

const MiB = 2 ** 20;

test('the defaults', () => {
  expect(configOf('')).toEqual({
    port: 8000,
    host: '127.0.0.1',
    workingDir: '/cwd',
    stateDir: '/home/me/.local/state/actiond/8000',
    plugins: [],
    pluginPaths: [],
    userId: 1000,
    confine: [],
    jupyter: { token: '', warm: 0 },
    logLevel: 'info',
    allowOrigins: [],
    apiKeys: [],
    browser: {
      enabled: true,
      start: 'lazy',
      mode: 'shared',
      poolSize: 4,
      maxAgeMs: 86_400_000,
      maxMemoryBytes: 4 * 1024 ** 3,
      ignoreCertificates: false,
      exposeCdp: false,
      extraArguments: [],
    },
    bash: { multiCommand: 'reject', noChangeTimeoutMs: 10_000 },
    limits: {
      maxBodyBytes: 64 * MiB,
      maxSessions: 32,
      maxActionsInFlight: 256,
      maxOutputFileBytes: 64 * MiB,
      maxOutputTotalBytes: 1024 * MiB,
      maxUnzipBytes: 100 * 1024 * MiB,
      maxUnzipRatio: 200,
      maxUnzipEntries: 1_000_000,
      maxOutputEventBytes: 8 * MiB,
      maxConnections: 1024,
      maxSubscribers: 256,
      keepAliveMs: 75_000,
      bodyIdleMs: 120_000,
    },
    log: { maxBytes: 256 * MiB, maxAgeMs: 7 * 24 * 3_600_000 },
    secretEnv: ['*KEY*', '*TOKEN*', '*SECRET*', '*PASSWORD*'],
    v0: {
      suToUser: true,
      sandboxGroup: 'root',
      localRuntime: false,
      initPluginTimeoutMs: 120_000,
      vscodeDir: '/workspace',
      workspaceBase: '/workspace',
      memoryMonitor: false,
    },
    childEnv: HOME,
  });
});

describe('V0 drop-in', () => {
  const CAPTURED =
    '/openhands/micromamba/bin/micromamba run -n openhands poetry run python -u -m openhands.runtime.action_execution_server ' +
    '60000 --working-dir /workspace --plugins agent_skills jupyter --username openhands --user-id 1000 --no-enable-browser';

  test('takes the command that a V0 client builds (V0 §1.2)', () => {
    expect(configOf(CAPTURED)).toMatchObject({
      port: 60_000,
      host: '0.0.0.0',
      workingDir: '/workspace',
      plugins: ['agent_skills', 'jupyter'],
      username: 'openhands',
      userId: 1000,
      browser: { enabled: false },
    });
  });

  test('takes what follows a launcher of that name', () => {
    expect(configOf(CAPTURED.slice(CAPTURED.indexOf('run -n')))).toEqual(configOf(CAPTURED));
  });

  test('lets the host be chosen', () => {
    expect(configOf(`${CAPTURED} --host 127.0.0.1`).host).toBe('127.0.0.1');
    expect(configOf(CAPTURED, { ...HOME, ACTIOND_HOST: '::1' }).host).toBe('::1');
  });
});

describe('flags', () => {
  test.each<[string, object]>([
    ['0', { port: 0, stateDir: '/home/me/.local/state/actiond/any' }],
    ['65535', { port: 65_535 }],
    ['+08', { port: 8, stateDir: '/home/me/.local/state/actiond/8' }],
    ['--host fe80::1%eth0', { host: 'fe80::1%eth0' }],
    ['-- 9000', { port: 9000 }],
    ['--host=0.0.0.0 9000', { host: '0.0.0.0', port: 9000 }],
    ['--host ::1', { host: '::1' }],
    ['--work /x', { workingDir: '/x' }],
    ['--work=/x=y', { workingDir: '/x=y' }],
    ['--state-dir /s', { stateDir: '/s' }],
    ['--state-dir s', { stateDir: '/cwd/s' }],
    ['8000 --plugins jupyter vscode --host h', { port: 8000, plugins: ['jupyter', 'vscode'], host: 'h' }],
    ['--plugins jupyter vscode -- 9000', { plugins: ['jupyter', 'vscode'], port: 9000 }],
    ['--plugins=jupyter 9000', { plugins: ['jupyter'], port: 9000 }],
    ['--plugins jupyter --plugins vscode', { plugins: ['vscode'] }],
    ['--plugin ./a.js --plugin /b.js', { pluginPaths: ['/cwd/a.js', '/b.js'], plugins: [] }],
    ['--username John.Doe-1', { username: 'John.Doe-1' }],
    ['--user-id 0', { userId: 0 }],
    ['--user-id=1 --user-id=2', { userId: 2 }],
    ['--no-enable-browser', { browser: { enabled: false } }],
    ['--no-enable-browser --enable-browser', { browser: { enabled: true } }],
    ['--no-e', { browser: { enabled: false } }],
    ['--multi-command run --no-change-timeout 3', { bash: { multiCommand: 'run', noChangeTimeoutMs: 3000 } }],
    ['--log-level trace', { logLevel: 'trace' }],
    [
      '--allow-origin https://A.example:443 --allow-origin http://b:81',
      { allowOrigins: ['https://a.example', 'http://b:81'] },
    ],
    ['--allow-origin chrome-extension://abc', { allowOrigins: ['chrome-extension://abc'] }],
  ])('%s', (line, expected) => {
    expect(configOf(line)).toMatchObject(expected);
  });

  test.each([
    ['65536', 65_536],
    ['1K', 1024],
    ['2KiB', 2048],
    ['3m', 3 * MiB],
    ['4MiB', 4 * MiB],
    ['1G', 1024 * MiB],
    ['1gib', 1024 * MiB],
  ])('size %s', (text, bytes) => {
    const { limits } = configOf(
      `--max-body-bytes ${text} --max-output-file-bytes ${text} --max-output-total-bytes ${text}`,
    );
    expect(limits).toMatchObject({ maxBodyBytes: bytes, maxOutputFileBytes: bytes, maxOutputTotalBytes: bytes });
  });

  test('counts and times', () => {
    const line =
      '--max-sessions 1 --max-actions-in-flight 2 --max-connections 3 --keep-alive-seconds 4 --body-idle-seconds 5';
    expect(configOf(line).limits).toMatchObject({
      maxSessions: 1,
      maxActionsInFlight: 2,
      maxConnections: 3,
      keepAliveMs: 4000,
      bodyIdleMs: 5000,
    });
  });
});

describe('mistakes on the command line', () => {
  test.each<[string, string]>([
    ['http', 'PORT: expected an integer from 0 to 65535, got "http"'],
    ['65536', 'PORT: expected an integer from 0 to 65535, got "65536"'],
    ['-1', 'PORT: expected an integer from 0 to 65535, got "-1"'],
    ['80.5', 'PORT: expected an integer from 0 to 65535, got "80.5"'],
    ['8000 9000', 'Unexpected argument "9000" after PORT; see --help'],
    ['--bogus', 'Unknown option --bogus; --help lists all options'],
    ['-x', 'Unknown option -x; --help lists all options'],
    ['--user me', 'Ambiguous option --user; write one of --username, --user-id'],
    [
      '--max-o 1',
      'Ambiguous option --max-o; write one of --max-output-file-bytes, --max-output-total-bytes, --max-output-event-bytes',
    ],
    ['--host', '--host needs a value; write --host VALUE or --host=VALUE'],
    ['--host --username me', '--host needs a value; write --host VALUE or --host=VALUE'],
    ['--plugins --host h', '--plugins needs a value; write --plugins VALUE or --plugins=VALUE'],
    ['--no-enable-browser=1', '--no-enable-browser takes no value; write it without "="'],
    ['--host 999.1.1.1', '--host: expected an IP address or host name, got "999.1.1.1"'],
    ['--host 1.2.3', '--host: expected an IP address or host name, got "1.2.3"'],
    ['--host 1::2::3', '--host: expected an IP address or host name, got "1::2::3"'],
    ['--host=', '--host: expected an IP address or host name, got ""'],
    ['--working-dir x', '--working-dir: expected an absolute path, got "x"'],
    ['--state-dir=', '--state-dir: expected an absolute path, got ""'],
    ['--plugins jupyter nope', '--plugins: Plugin nope not found; choose from agent_skills, jupyter, vscode'],
    ['--plugins jupyter 8000', '--plugins: Plugin 8000 not found; choose from agent_skills, jupyter, vscode'],
    [
      '--username a;b',
      '--username: expected a user or group name of at most 32 letters, digits, "_", "." and "-", got "a;b"',
    ],
    ['--user-id -1', '--user-id: expected an integer from 0 to 4294967294, got "-1"'],
    ['--multi-command maybe', '--multi-command: expected one of reject, run, got "maybe"'],
    ['--no-change-timeout 0', '--no-change-timeout: expected an integer from 1 to 2147483, got "0"'],
    ['--log-level loud', '--log-level: expected one of fatal, error, warn, info, debug, trace, silent, got "loud"'],
    ['--max-body-bytes 0', '--max-body-bytes: expected a positive size such as 65536, 512K, 64MiB or 1G, got "0"'],
    ['--max-body-bytes 1T', '--max-body-bytes: expected a positive size such as 65536, 512K, 64MiB or 1G, got "1T"'],
    [
      '--max-body-bytes 9999999999G',
      '--max-body-bytes: expected a positive size such as 65536, 512K, 64MiB or 1G, got "9999999999G"',
    ],
    [
      '--allow-origin *',
      '--allow-origin: expected an origin such as https://example.org:8443, without a path, got "*"',
    ],
    [
      '--allow-origin https://a/b',
      '--allow-origin: expected an origin such as https://example.org:8443, without a path, got "https://a/b"',
    ],
    [
      '--no-enable-browser --browsergym-eval-env webarena',
      '--browsergym-eval-env: Browser environment is not enabled in config, but browsergym_eval_env is set; drop this or --no-enable-browser',
    ],
  ])('%s', (line, message) => {
    expect(errorOf(line)).toBe(message);
  });

  test('name the port by where it came from', () => {
    const of = (line: string) => load(line, { ...HOME, ACTIOND_PORT: 'http' });
    expect(of('')).toMatchObject({ message: 'ACTIOND_PORT: expected an integer from 0 to 65535, got "http"' });
    expect(of('https')).toMatchObject({ message: 'PORT: expected an integer from 0 to 65535, got "https"' });
  });

  test('blanks around a number are no part of it, nor of the state directory', () => {
    expect(loadConfig([' 8'], HOME, '/cwd', '1.2.3')).toMatchObject({
      config: { port: 8, stateDir: '/home/me/.local/state/actiond/8' },
    });
  });

  test('stay on one short line', () => {
    const result = loadConfig([`a\nb${'x'.repeat(10_000)}`], HOME, '/cwd', '1.2.3');
    expect(result).toMatchObject({ kind: 'error', message: expect.stringMatching(/^PORT: .{1,200}$/) });
  });
});

describe('environment', () => {
  test.each<[Environment, object]>([
    [{ ACTIOND_HOST: '::' }, { host: '::' }],
    [{ ACTIOND_PORT: '9000' }, { port: 9000, stateDir: expect.stringMatching(/\/9000$/) }],
    [{ ACTIOND_PORT: '' }, { port: 8000 }],
    [{ ACTIOND_HOST: '' }, { host: '127.0.0.1' }],
    [{ ACTIOND_STATE_DIR: '/s' }, { stateDir: '/s' }],
    [{ ACTIOND_MULTI_COMMAND: 'run' }, { bash: { multiCommand: 'run' } }],
    [{ NO_CHANGE_TIMEOUT_SECONDS: '1' }, { bash: { noChangeTimeoutMs: 1000 } }],
    [{ INIT_PLUGIN_TIMEOUT: ' 7 ' }, { v0: { initPluginTimeoutMs: 7000 } }],
    [{ XDG_STATE_HOME: '/xdg' }, { stateDir: '/xdg/actiond/8000' }],
    [{ XDG_STATE_HOME: 'relative', HOME: '/h' }, { stateDir: '/h/.local/state/actiond/8000' }],
    [{ HOME: undefined }, { stateDir: `${tmpdir()}/actiond-state/8000` }],
    [{ LOG_LEVEL: 'WARNING' }, { logLevel: 'warn' }],
    [{ LOG_LEVEL: 'CRITICAL' }, { logLevel: 'fatal' }],
    [{ LOG_LEVEL: 'Error', DEBUG: 'True' }, { logLevel: 'debug' }],
    [{ DEBUG: '1' }, { logLevel: 'debug' }],
    [{ DEBUG: 'express:*', LOG_LEVEL: 'error' }, { logLevel: 'error' }],
    [{ SU_TO_USER: 'No' }, { v0: { suToUser: false } }],
    [{ SU_TO_USER: 'Y' }, { v0: { suToUser: true } }],
    [{ LOCAL_RUNTIME_MODE: '1', OPENHANDS_REPO_PATH: '/repo' }, { v0: { localRuntime: true, repoPath: '/repo' } }],
    [
      { RUNTIME_USERNAME: 'dev', SANDBOX_GROUP_ID: '1000', USER: 'me' },
      { v0: { runtimeUsername: 'dev', sandboxGroup: '1000', launchedBy: 'me' } },
    ],
    [{ RUNTIME_MAX_MEMORY_GB: '4', RUNTIME_MEMORY_MONITOR: 'yes' }, { v0: { maxMemoryGb: 4, memoryMonitor: true } }],
    [
      {
        VSCODE_PORT: '40001',
        WORKSPACE_MOUNT_PATH_IN_SANDBOX: '/w',
        WORKSPACE_BASE: '/b',
        OPENVSCODE_SERVER_BASE_PATH: '/p',
      },
      { v0: { vscodePort: 40_001, vscodeDir: '/w', workspaceBase: '/b', vscodeBasePath: '/p' } },
    ],
    [{ RUNTIME_URL: 'https://x/r1', RUNTIME_ID: 'r1' }, { v0: { runtimeUrl: 'https://x/r1', runtimeId: 'r1' } }],
  ])('%o', (env, expected) => {
    expect(configOf('', env)).toMatchObject(expected);
  });

  test('a flag beats its variable', () => {
    const env = { ACTIOND_HOST: 'e', ACTIOND_STATE_DIR: '/e', NO_CHANGE_TIMEOUT_SECONDS: '5', DEBUG: '1' };
    expect(configOf('--host f --state-dir /f --no-change-timeout 6 --log-level fatal', env)).toMatchObject({
      host: 'f',
      stateDir: '/f',
      bash: { noChangeTimeoutMs: 6000 },
      logLevel: 'fatal',
    });
  });

  test.each<[Environment, string]>([
    [{ ACTIOND_HOST: 'a b' }, 'ACTIOND_HOST: expected an IP address or host name, got "a b"'],
    [{ ACTIOND_MULTI_COMMAND: 'x' }, 'ACTIOND_MULTI_COMMAND: expected one of reject, run, got "x"'],
    [
      { NO_CHANGE_TIMEOUT_SECONDS: '1.5' },
      'NO_CHANGE_TIMEOUT_SECONDS: expected an integer from 1 to 2147483, got "1.5"',
    ],
    [{ INIT_PLUGIN_TIMEOUT: 'soon' }, 'INIT_PLUGIN_TIMEOUT: expected an integer from 1 to 2147483, got "soon"'],
    [{ SU_TO_USER: 'maybe' }, 'SU_TO_USER: expected one of 1 true t yes y on 0 false f no n off, got "maybe"'],
    [{ LOG_LEVEL: 'loud' }, 'LOG_LEVEL: expected one of fatal, error, warn, info, debug, trace, silent, got "loud"'],
    [{ WORKSPACE_BASE: 'w' }, 'WORKSPACE_BASE: expected an absolute path, got "w"'],
    [{ SANDBOX_GROUP_ID: '$(id)' }, 'SANDBOX_GROUP_ID: expected a group name or number, got "$(id)"'],
    [{ RUNTIME_MAX_MEMORY_GB: '-1' }, 'RUNTIME_MAX_MEMORY_GB: expected an integer from 1 to 1048576, got "-1"'],
    [{ SESSION_API_KEY: ' \n' }, 'SESSION_API_KEY: expected a key, got none; unset it to run without a key'],
    [{ ACTIOND_API_KEYS: ',,' }, 'ACTIOND_API_KEYS: expected a key, got none; unset it to run without a key'],
    [
      { SESSION_API_KEY: 'a\u0001b' },
      'SESSION_API_KEY: there is a control character within it, so that no request could carry the key; choose another',
    ],
    [
      { ACTIOND_API_KEYS: 'a,b\nc' },
      'ACTIOND_API_KEYS: there is a control character within it, so that no request could carry the key; choose another',
    ],
    [
      { ACTIOND_API_KEYS: 'a,b\ufffd' },
      'ACTIOND_API_KEYS: it is not valid UTF-8, so that no request could carry the key; choose another',
    ],
    [{ ACTIOND_API_KEYS: ' , ' }, 'ACTIOND_API_KEYS: expected a key, got none; unset it to run without a key'],
  ])('%o is a mistake', (env, message) => {
    expect(errorOf('', env)).toBe(message);
  });

  test('a variable of the word `constructor` is no boolean', () => {
    expect(errorOf('', { SU_TO_USER: 'constructor' })).toContain('SU_TO_USER');
    expect(errorOf('', { LOG_LEVEL: 'constructor' })).toContain('LOG_LEVEL');
  });
});

describe('warnings', () => {
  test.each(['127.0.0.1', '127.1.2.3', '::1', 'localhost'])('none for %s', (host) => {
    expect(run(`--host ${host}`).warnings).toEqual([]);
  });

  test.each(['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.org'])('an open server on %s', (host) => {
    expect(run(`--host ${host}`).warnings).toEqual([expect.stringContaining('SESSION_API_KEY')]);
    expect(run(`--host ${host}`, { SESSION_API_KEY: 'k' }).warnings).toEqual([]);
  });

  test('a VSCODE_PORT that is no port switches VS Code off (V0 §1.6)', () => {
    const { config, warnings } = run('', { VSCODE_PORT: 'tcp://10.0.0.1:80' });
    expect(config.v0.vscodePort).toBeUndefined();
    expect(warnings).toEqual([
      'VSCODE_PORT: expected a port number, got "tcp://10.0.0.1:80"; the vscode plugin is off.',
    ]);
  });
});

describe('keys', () => {
  test.each<[Environment, string[]]>([
    [{}, []],
    [{ SESSION_API_KEY: '', ACTIOND_API_KEYS: '' }, []],
    [{ SESSION_API_KEY: 'a' }, ['a']],
    [{ SESSION_API_KEY: 'a,b\n' }, ['a,b']],
    [{ SESSION_API_KEY: 'a', ACTIOND_API_KEYS: 'b, c,,a,' }, ['a', 'b', 'c']],
  ])('%o', (env, keys) => {
    expect(configOf('', env).apiKeys).toEqual(keys);
  });

  const KEYS = {
    SESSION_API_KEY: 's3cret',
    ACTIOND_API_KEYS: 's3cret-2',
    MY_SESSION_API_KEY: 's3cret-3',
    ACTIOND_OTHER: 's3cret-4',
  };

  test.each([
    '',
    '--help',
    '--version',
    'x',
    '--bogus=s3cret',
    '--api-key=s3cret',
    '--api-key s3cret',
    '--host',
    '--plugins x',
  ])('are not in what `%s` says', (line) => {
    const result = load(line, { ...KEYS, ...(line === '' ? { SU_TO_USER: 'x' } : {}) });
    expect(result.kind).not.toBe('run');
    expect(JSON.stringify(result)).not.toContain('s3cret');
  });

  test('are not in the environment of shells', () => {
    const { childEnv } = configOf('', { ...KEYS, HOME: '/h', OPENAI_API_KEY: 'the agent needs it', UNSET: undefined });
    expect(childEnv).toEqual({ HOME: '/h', OPENAI_API_KEY: 'the agent needs it' });
  });
});

describe('the environment of shells', () => {
  const PATH =
    '/app/node_modules/.bin:/node_modules/.bin:/usr/lib/node_modules/npm/node_modules/@npmcli/run-script/lib/node-gyp-bin:/usr/bin';
  const OWN = { PATH, npm_config_registry: 'https://r', NODE: 'n', INIT_CWD: '/i', COLOR: '0', NODE_ENV: 'test' };

  test('is ours as it is', () => {
    expect(configOf('', OWN).childEnv).toEqual(OWN);
  });

  test('lacks what npm adds', () => {
    expect(configOf('', { ...OWN, npm_lifecycle_event: 'start' }).childEnv).toEqual({
      PATH: '/usr/bin',
      NODE_ENV: 'test',
    });
  });
});

describe('information', () => {
  test.each(['--help', '-h', '--he', '9000 --help --host h'])('%s', (line) => {
    const result = load(line);
    expect(result).toMatchObject({
      kind: 'print',
      text: expect.stringMatching(/^Usage: actiond \[PORT\] \[options\]\n/),
    });
  });

  test('--help names every option with its default, and every variable', () => {
    const result = load('--help');
    const text = result.kind === 'print' ? result.text : '';
    expect(text).toMatch(/^ {2}--max-body-bytes SIZE .*in bytes \(default: 64MiB\)$/m);
    expect(text).toMatch(/^ {2}--host ADDRESS .*\(default: 127\.0\.0\.1; env: ACTIOND_HOST\)$/m);
    expect(text).toMatch(/^ {2}--enable-browser, --no-enable-browser .*\(default: true\)$/m);
    expect(text).toMatch(/^ {2}NO_CHANGE_TIMEOUT_SECONDS +as --no-change-timeout$/m);
    for (const name of ['SESSION_API_KEY', 'ACTIOND_API_KEYS', 'DEBUG', 'SU_TO_USER', 'RUNTIME_MEMORY_MONITOR']) {
      expect(text).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    }
  });

  test('--version', () => {
    expect(load('--version')).toEqual({ kind: 'print', text: 'actiond 1.2.3' });
  });
});

test('the configuration is frozen at every level', () => {
  const { config } = run('--plugins jupyter --plugin a --allow-origin http://a', { SESSION_API_KEY: 'k' });
  expect(unfrozen(config, 'config')).toEqual([]);
});

function unfrozen(value: unknown, name: string): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const inner = Object.entries(value).flatMap(([key, each]) => unfrozen(each, `${name}.${key}`));
  return Object.isFrozen(value) ? inner : [name, ...inner];
}
