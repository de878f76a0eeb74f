import { describe, expect, test } from 'vitest';
import {
  Action,
  type ActionType,
  EXECUTABLE_ACTION_TYPES,
  MAX_TIMEOUT_SECONDS,
  parseAction,
} from '../../src/protocol/actions.ts';

const COMMON = { thought: '', security_risk: -1 };

/** V0 §3.2: what is sent at least, and what it stands for. */
const DEFAULTS: readonly [ActionType, object, object][] = [
  [
    'run',
    { command: 'ls' },
    {
      command: 'ls',
      is_input: false,
      blocking: false,
      is_static: false,
      cwd: null,
      hidden: false,
      confirmation_state: 'confirmed',
      session: 'default',
      ...COMMON,
    },
  ],
  [
    'run_ipython',
    { code: '1+1' },
    {
      code: '1+1',
      include_extra: true,
      confirmation_state: 'confirmed',
      kernel_init_code: '',
      stop_on_error: true,
      session: 'default',
      ...COMMON,
    },
  ],
  ['read', { path: '/a' }, { path: '/a', start: 0, end: -1, impl_source: 'default', view_range: null, ...COMMON }],
  ['write', { path: '/a', content: 'x' }, { path: '/a', content: 'x', start: 0, end: -1, ...COMMON }],
  [
    'edit',
    { path: '/a' },
    {
      path: '/a',
      command: '',
      file_text: null,
      old_str: null,
      new_str: null,
      insert_line: null,
      content: '',
      start: 1,
      end: -1,
      impl_source: 'oh_aci',
      ...COMMON,
    },
  ],
  ['browse', { url: 'http://a' }, { url: 'http://a', return_axtree: false, session: 'default', ...COMMON }],
  [
    'browse_interactive',
    { browser_actions: 'noop()' },
    { browser_actions: 'noop()', browsergym_send_msg_to_user: '', return_axtree: false, session: 'default', ...COMMON },
  ],
  ['call_tool_mcp', { name: 'fetch' }, { name: 'fetch', arguments: {}, ...COMMON }],
  ['null', {}, {}],
  ['think', {}, { thought: '' }],
  ['finish', {}, { final_thought: '', outputs: {}, thought: '' }],
  ['reject', {}, { outputs: {}, thought: '' }],
  ['delegate', { agent: 'a', inputs: {} }, { agent: 'a', inputs: {}, thought: '' }],
  ['recall', { recall_type: 'knowledge' }, { recall_type: 'knowledge', query: '', thought: '' }],
  ['change_agent_state', { agent_state: 'paused' }, { agent_state: 'paused', thought: '' }],
  [
    'message',
    { content: 'hi' },
    { content: 'hi', file_urls: null, image_urls: null, wait_for_response: false, security_risk: -1 },
  ],
  ['system', { content: 'hi' }, { content: 'hi', tools: null, openhands_version: null, agent_class: null }],
  [
    'condensation',
    {},
    {
      forgotten_event_ids: null,
      forgotten_events_start_id: null,
      forgotten_events_end_id: null,
      summary: null,
      summary_offset: null,
    },
  ],
  ['condensation_request', {}, {}],
  ['task_tracking', {}, { command: 'view', task_list: [], thought: '' }],
  ['loop_recovery', {}, { option: 1 }],
];

describe('defaults (V0 §3.2)', () => {
  test.each(DEFAULTS)('%s', (action, args, expected) => {
    expect(parseAction({ action, args })).toEqual({ ok: true, action: { action, args: expected }, unknownArgs: [] });
  });

  test('the table has every type', () => {
    const types = Action.options.map((option) => option.shape.action.value);
    expect(DEFAULTS.map(([type]) => type)).toEqual(types);
    expect(types.slice(0, 7)).toEqual(EXECUTABLE_ACTION_TYPES);
  });

  test('missing args are the defaults', () => {
    expect(parseAction({ action: 'think' })).toMatchObject({ ok: true, action: { args: { thought: '' } } });
  });

  test('null in an optional field is its default', () => {
    const args = { command: 'ls', is_input: null, thought: null, cwd: null, session: null, security_risk: null };
    expect(parsedArgs({ action: 'run', args })).toEqual(parsedArgs({ action: 'run', args: { command: 'ls' } }));
    expect(parsedArgs({ action: 'run_ipython', args: { code: '1', cells: null, kernel: null } })).not.toHaveProperty(
      'cells',
    );
  });
});

describe('envelope (V0 §3.1)', () => {
  const CAPTURE = {
    id: 7,
    timestamp: '2025-01-01T00:00:00',
    source: 'agent',
    message: 'Running command: ls',
    action: 'run',
    args: {
      command: 'ls',
      is_input: false,
      thought: '',
      blocking: false,
      is_static: false,
      cwd: null,
      hidden: false,
      confirmation_state: 'confirmed',
      security_risk: -1,
    },
    timeout: 120.0,
  };

  test('what V0 sends comes out whole', () => {
    expect(parseAction(CAPTURE)).toEqual({
      ok: true,
      action: { ...CAPTURE, args: { ...CAPTURE.args, session: 'default' } },
      unknownArgs: [],
    });
  });

  test('metadata of the LLM is dropped whatever it is', () => {
    const action = {
      ...CAPTURE,
      tool_call_metadata: { model_response: { deep: [1] } },
      llm_metrics: 'odd',
      other: null,
    };
    expect(parseAction(action)).toEqual(parseAction(CAPTURE));
  });

  test.each([
    ['id', { nested: true }],
    ['id', true],
    ['timestamp', 12],
    ['source', null],
    ['cause', []],
    ['message', { text: 'hi' }],
  ])('a malformed %s is dropped: %j', (key, value) => {
    const parsed = parseAction({ action: 'think', [key]: value });
    expect(parsed).toEqual({ ok: true, action: { action: 'think', args: { thought: '' } }, unknownArgs: [] });
  });

  test.each([
    [0, 0],
    [2.5, 2.5],
    [1e300, MAX_TIMEOUT_SECONDS],
    [null, undefined],
    [undefined, undefined],
  ])('timeout %s is %s', (timeout, expected) => {
    const parsed = parseAction({ action: 'run', args: { command: 'ls' }, timeout });
    expect(parsed).toMatchObject({ ok: true });
    expect(parsed.ok && parsed.action.timeout).toBe(expected);
  });
});

describe('unknown arguments', () => {
  test('are named and dropped', () => {
    const parsed = parseAction({ action: 'run', args: { command: 'ls', bogus: 1, toString: 2 } });
    expect(parsed).toMatchObject({ ok: true, unknownArgs: ['bogus', 'toString'] });
    expect(parsed.ok && parsed.action.args).not.toHaveProperty('bogus');
  });

  test('a __proto__ from the wire changes nothing', () => {
    const parsed = parseAction(JSON.parse('{"action":"run","args":{"command":"ls","__proto__":{"hidden":true}}}'));
    expect(parsed).toMatchObject({ ok: true, action: { args: { hidden: false } }, unknownArgs: ['__proto__'] });
  });
});

describe('deprecated input (V0 §3.1)', () => {
  test.each<[string, object, object]>([
    ['keep_prompt', { action: 'run', args: { command: 'ls', keep_prompt: true } }, { command: 'ls' }],
    [
      'is_confirmed',
      { action: 'run', args: { command: 'ls', is_confirmed: 'rejected' } },
      { confirmation_state: 'rejected' },
    ],
    [
      'is_confirmed as a boolean',
      { action: 'run', args: { command: 'ls', is_confirmed: false } },
      { confirmation_state: 'awaiting_confirmation' },
    ],
    ['task_completed', { action: 'finish', args: { task_completed: 'true' } }, { final_thought: '' }],
    ['images_urls', { action: 'message', args: { content: 'a', images_urls: ['u'] } }, { image_urls: ['u'] }],
    ['a wrong security_risk', { action: 'run', args: { command: 'ls', security_risk: 'LOW' } }, { security_risk: -1 }],
    ['a good security_risk', { action: 'run', args: { command: 'ls', security_risk: 2 } }, { security_risk: 2 }],
  ])('%s', (_name, action, expected) => {
    expect(parseAction(action)).toMatchObject({ ok: true, unknownArgs: [], action: { args: expected } });
  });

  test('args.timestamp is lifted out, and the one outside wins', () => {
    const args = { content: 'a', timestamp: 'inner' };
    expect(parseAction({ action: 'message', args })).toMatchObject({
      ok: true,
      unknownArgs: [],
      action: { timestamp: 'inner' },
    });
    expect(parseAction({ action: 'message', args, timestamp: 'outer' })).toMatchObject({
      action: { timestamp: 'outer' },
    });
  });

  test('translated_ipython_code is merged', () => {
    const code = String.raw`print(file_editor(**{'command': 'str_replace', 'path': '/w/a.py', 'old_str': 'it\'s', 'new_str': "a\nb", 'insert_line': None}))`;
    expect(parseAction({ action: 'edit', args: { path: '/old', translated_ipython_code: code } })).toMatchObject({
      ok: true,
      unknownArgs: [],
      action: {
        args: { command: 'str_replace', path: '/w/a.py', old_str: "it's", new_str: 'a\nb', insert_line: null },
      },
    });
  });

  test('a translated view has no command', () => {
    const code = "print(file_editor(**{'command': 'view', 'path': '/w', 'view_range': [1, 10]}))";
    const parsed = parseAction({
      action: 'read',
      args: { path: '/w', impl_source: 'oh_aci', translated_ipython_code: code },
    });
    expect(parsed).toMatchObject({ ok: true, unknownArgs: [], action: { args: { view_range: [1, 10] } } });
  });

  test.each([["print(file_editor(**{'path': open('x')}))"], ['print(1)'], [''], [null], [7]])(
    'is dropped when it is %j',
    (code) => {
      const parsed = parseAction({ action: 'edit', args: { path: '/a', translated_ipython_code: code } });
      expect(parsed).toMatchObject({ ok: true, unknownArgs: [], action: { args: { path: '/a' } } });
    },
  );
});

describe('insert_line', () => {
  test.each([
    [3, 3],
    ['3', 3],
    [' +12 ', 12],
    ['-1', -1],
    ['zz', 'zz'],
    [null, null],
  ])('%j is %j', (insert_line, expected) => {
    expect(parsedArgs({ action: 'edit', args: { path: '/a', insert_line } })).toMatchObject({ insert_line: expected });
  });
});

describe('run_ipython', () => {
  test('cells stand for code', () => {
    expect(parsedArgs({ action: 'run_ipython', args: { cells: ['a = 1', 'a'] } })).toMatchObject({
      code: '',
      cells: ['a = 1', 'a'],
    });
  });

  test('an empty cell is a cell', () => {
    expect(parsedArgs({ action: 'run_ipython', args: { code: '' } })).toMatchObject({ code: '' });
  });

  test('a kernel can be named', () => {
    expect(parsedArgs({ action: 'run_ipython', args: { code: '', kernel: 'ir', session: 'r' } })).toMatchObject({
      kernel: 'ir',
      session: 'r',
    });
  });
});

const RUN_HINT = '. Send {"action":"run","args":{"command":"..."}}.';
const AVAILABLE = 'run, run_ipython, read, write, edit, browse, browse_interactive.';
const NAMES = '1 to 64 letters, digits, "_", "." or "-"';

const MISTAKES: readonly [unknown, string][] = [
  [undefined, 'action: expected an object, got nothing'],
  ['ls', 'action: expected an object, got the string "ls"'],
  [[1], 'action: expected an object, got a list of 1'],
  [{}, `action.action: expected one of ${AVAILABLE.slice(0, -1)}, got nothing.`],
  [{ action: 5 }, `action.action: expected one of ${AVAILABLE.slice(0, -1)}, got 5.`],
  [{ observation: 'run' }, `action.action: expected one of ${AVAILABLE.slice(0, -1)}, got nothing.`],
  [{ action: 'bogus' }, `action.action: there is no action type "bogus". Available: ${AVAILABLE}`],
  [{ action: 'constructor' }, `action.action: there is no action type "constructor". Available: ${AVAILABLE}`],
  [{ action: 'run', args: null }, `action.args: expected an object, got null${RUN_HINT}`],
  [{ action: 'run', args: ['ls'] }, `action.args: expected an object, got a list of 1${RUN_HINT}`],
  [{ action: 'run', args: {} }, `action.args.command: expected a string, got nothing${RUN_HINT}`],
  [{ action: 'run', args: { command: null } }, `action.args.command: expected a string, got null${RUN_HINT}`],
  [{ action: 'run', args: { command: { a: 1 } } }, `action.args.command: expected a string, got an object${RUN_HINT}`],
  [
    { action: 'run', args: { command: 'a\0b' } },
    `action.args.command: must not contain a NUL character (there is one at index 1)${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', cwd: '/\0' } },
    `action.args.cwd: must not contain a NUL character (there is one at index 1)${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', is_input: 'no' } },
    `action.args.is_input: expected true or false, got the string "no"${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', session: '' } },
    `action.args.session: expected ${NAMES}, got the string ""${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', session: 'a/b' } },
    `action.args.session: expected ${NAMES}, got the string "a/b"${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', session: 'a\n' } },
    `action.args.session: expected ${NAMES}, got the string "a\\n"${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', session: 'x'.repeat(65) } },
    `action.args.session: expected ${NAMES}, got the string "${'x'.repeat(40)}"…${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a', confirmation_state: 'maybe' } },
    `action.args.confirmation_state: expected one of "confirmed", "rejected", "awaiting_confirmation", got the string "maybe"${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 1, blocking: 2 }, timeout: -1 },
    'action.args.command: expected a string, got 1\n' +
      'action.args.blocking: expected true or false, got 2\n' +
      `action.timeout: expected a finite number of seconds >= 0, got -1${RUN_HINT}`,
  ],
  [
    { action: 'run', args: { command: 'a' }, timeout: Number.NaN },
    'action.timeout: expected a finite number of seconds >= 0, got NaN',
  ],
  [
    { action: 'run', args: { command: 'a' }, timeout: Number.POSITIVE_INFINITY },
    'action.timeout: expected a finite number of seconds >= 0, got Infinity',
  ],
  [
    { action: 'run', args: { command: 'a' }, timeout: '30' },
    'action.timeout: expected a finite number of seconds >= 0, got the string "30"',
  ],
  [
    { action: 'run_ipython', args: {} },
    'action.args.code: expected a string, got nothing. Send {"action":"run_ipython","args":{"code":"..."}}.',
  ],
  [
    { action: 'run_ipython', args: { code: null } },
    'action.args.code: expected a string, got null. Send {"action":"run_ipython","args":{"code":"..."}}.',
  ],
  [
    { action: 'run_ipython', args: { code: '\0' } },
    'action.args.code: must not contain a NUL character (there is one at index 0). Send {"action":"run_ipython","args":{"code":"..."}}.',
  ],
  [
    { action: 'run_ipython', args: { cells: [] } },
    'action.args.cells: expected a list of at least 1, got a list of 0. Send {"action":"run_ipython","args":{"code":"..."}}.',
  ],
  [
    { action: 'run_ipython', args: { cells: ['a', 1] } },
    'action.args.cells[1]: expected a string, got 1. Send {"action":"run_ipython","args":{"code":"..."}}.',
  ],
  [
    { action: 'read', args: { path: '/\0', start: 1.5, view_range: '[1, 2]' } },
    'action.args.path: must not contain a NUL character (there is one at index 1)\n' +
      'action.args.start: expected an integer, got 1.5\n' +
      'action.args.view_range: expected a list, got the string "[1, 2]". Send {"action":"read","args":{"path":"..."}}.',
  ],
  [
    { action: 'write', args: { path: '/a', content: {} } },
    'action.args.content: expected a string, got an object. Send {"action":"write","args":{"path":"...","content":"..."}}.',
  ],
  [
    { action: 'edit', args: { path: '/a', insert_line: {} } },
    'action.args.insert_line: expected an integer or a numeric string, got an object. ' +
      'Send {"action":"edit","args":{"path":"...","command":"str_replace","old_str":"...","new_str":"..."}}.',
  ],
  [
    { action: 'browse', args: {} },
    'action.args.url: expected a string, got nothing. Send {"action":"browse","args":{"url":"http://..."}}.',
  ],
  [
    { action: 'browse_interactive', args: {} },
    'action.args.browser_actions: expected a string, got nothing. ' +
      `Send {"action":"browse_interactive","args":{"browser_actions":"goto('http://...')"}}.`,
  ],
];

describe('mistakes', () => {
  test.each(MISTAKES)('%j', (input, message) => {
    expect(parseAction(input)).toMatchObject({ ok: false, hidden: false, message });
  });

  test.each([
    [{ action: 'run', args: { hidden: true } }, true],
    [{ action: 'run', args: { command: 'a', hidden: true }, timeout: -1 }, true],
    // Truthy is what V0's client asks for.
    [{ action: 'run', args: { hidden: 1 } }, true],
    [{ action: 'run', args: {} }, false],
    [{ action: 'read', args: { hidden: true } }, false],
    [{ action: 'bogus', args: { hidden: true } }, false],
  ])('%j asked to be hidden: %s', (input, hidden) => {
    expect(parseAction(input)).toMatchObject({ ok: false, hidden, actionType: input.action });
  });

  test('are told ten at a time', () => {
    const parsed = parseAction({ action: 'run_ipython', args: { cells: Array.from({ length: 10_000 }, () => 1) } });
    const lines = parsed.ok ? [] : parsed.message.split('\n');
    expect(lines).toHaveLength(11);
    expect(lines[10]).toMatch(/^action: 9990 more problems/);
  });

  test('content may be anything that a string can be', () => {
    for (const content of ['\0', '\ud800', '']) {
      expect(parsedArgs({ action: 'write', args: { path: '/a', content } })).toMatchObject({ content });
    }
    expect(parsedArgs({ action: 'run', args: { command: 'echo \udc00' } })).toMatchObject({ command: 'echo \udc00' });
  });

  test('every example in a hint is accepted', () => {
    for (const type of Action.options.map((option) => option.shape.action.value)) {
      const parsed = parseAction({ action: type, args: null });
      const example = /Send (\{.*\})\.$/.exec(parsed.ok ? '' : parsed.message)?.[1];
      expect(parseAction(JSON.parse(example ?? 'null'))).toMatchObject({ ok: true, unknownArgs: [] });
    }
  });
});

function parsedArgs(input: unknown): object {
  const parsed = parseAction(input);
  expect(parsed).toMatchObject({ ok: true });
  return parsed.ok ? parsed.action.args : {};
}
