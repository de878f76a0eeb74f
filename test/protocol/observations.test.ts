import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  browseObservation,
  DEFAULT_METADATA,
  downloadObservation,
  editObservation,
  errorObservation,
  ipythonObservation,
  MAX_CONTENT_CODE_POINTS,
  mcpObservation,
  Observation,
  pythonFloat,
  readObservation,
  refusalObservation,
  runObservation,
  truncateContent,
  TRUNCATION_NOTICE,
  writeObservation,
} from '../../src/protocol/observations.ts';

const METADATA = {
  exit_code: 0,
  pid: -1,
  username: 'root',
  hostname: 'vm',
  working_dir: '/workspace',
  py_interpreter_path: '/usr/bin/python',
  prefix: '',
  suffix: '\n[The command completed with exit code 0.]',
};

const BROWSE_DEFAULTS = {
  screenshot: null,
  screenshot_path: null,
  set_of_marks: null,
  error: false,
  goal_image_urls: [],
  open_pages_urls: [],
  active_page_index: -1,
  dom_object: {},
  axtree_object: {},
  extra_element_properties: {},
  last_browser_action: '',
  last_browser_action_error: '',
  focused_element_bid: null,
  filter_visible_only: false,
};

/** V0 §4.2: what a builder makes, to the key. */
const BUILT: readonly [string, Observation, object][] = [
  [
    'run',
    runObservation({ command: 'echo hi', content: 'hi', metadata: METADATA, hidden: false }),
    {
      message: 'Command `echo hi` executed with exit code 0.',
      observation: 'run',
      content: 'hi',
      extras: { command: 'echo hi', metadata: METADATA, hidden: false },
      success: true,
    },
  ],
  [
    'run that still runs',
    runObservation({ command: 'sleep 9', content: '', metadata: DEFAULT_METADATA, hidden: true }),
    {
      message: 'Command `sleep 9` executed with exit code -1.',
      observation: 'run',
      content: '',
      extras: {
        command: 'sleep 9',
        metadata: {
          exit_code: -1,
          pid: -1,
          username: null,
          hostname: null,
          working_dir: null,
          py_interpreter_path: null,
          prefix: '',
          suffix: '',
        },
        hidden: true,
      },
      success: false,
    },
  ],
  [
    'run_ipython',
    ipythonObservation({ code: '1+1', content: '2' }),
    {
      message: 'Code executed in IPython cell.',
      observation: 'run_ipython',
      content: '2',
      extras: { code: '1+1', image_urls: null },
      success: true,
    },
  ],
  [
    'run_ipython with an image',
    ipythonObservation({ code: 'plot()', content: '', imageUrls: ['data:image/png;base64,AA=='] }),
    {
      message: 'Code executed in IPython cell.',
      observation: 'run_ipython',
      content: '',
      extras: { code: 'plot()', image_urls: ['data:image/png;base64,AA=='] },
      success: true,
    },
  ],
  [
    'read',
    readObservation({ path: '/a', content: 'x\n', implSource: 'default' }),
    {
      message: 'I read the file /a.',
      observation: 'read',
      content: 'x\n',
      extras: { path: '/a', impl_source: 'default' },
    },
  ],
  [
    'write',
    writeObservation('/a'),
    { message: 'I wrote to the file /a.', observation: 'write', content: '', extras: { path: '/a' } },
  ],
  [
    'edit',
    editObservation({ path: '/a', content: 'done', oldStr: 'a', newStr: null, diff: '' }),
    {
      message: 'I edited the file /a.',
      observation: 'edit',
      content: 'done',
      extras: {
        path: '/a',
        prev_exist: false,
        old_content: 'a',
        new_content: null,
        impl_source: 'oh_aci',
        diff: '',
        _diff_cache: null,
      },
    },
  ],
  [
    'browse',
    browseObservation('text', { url: 'http://a/', trigger_by_action: 'browse' }),
    {
      message: 'Visited http://a/',
      observation: 'browse',
      content: 'text',
      extras: { url: 'http://a/', trigger_by_action: 'browse', ...BROWSE_DEFAULTS },
    },
  ],
  [
    'browse with everything',
    browseObservation('text', {
      url: 'http://a/',
      trigger_by_action: 'browse_interactive',
      error: true,
      active_page_index: 1,
      extra_element_properties: { a1: { visibility: 0.5, bbox: [0, 1, 2, 3], clickable: true, set_of_marks: null } },
    }),
    {
      message: 'Visited http://a/',
      observation: 'browse',
      content: 'text',
      extras: {
        ...BROWSE_DEFAULTS,
        url: 'http://a/',
        trigger_by_action: 'browse_interactive',
        error: true,
        active_page_index: 1,
        extra_element_properties: { a1: { visibility: 0.5, bbox: [0, 1, 2, 3], clickable: true, set_of_marks: null } },
      },
    },
  ],
  [
    'download',
    downloadObservation('/workspace/.downloads/a.pdf'),
    {
      message: 'Downloaded the file at location: /workspace/.downloads/a.pdf',
      observation: 'download',
      content: 'Downloaded the file at location: /workspace/.downloads/a.pdf',
      extras: { file_path: '/workspace/.downloads/a.pdf' },
    },
  ],
  [
    'error',
    errorObservation('No.'),
    { message: 'No.', observation: 'error', content: 'No.', extras: { error_id: '' } },
  ],
  [
    'mcp',
    mcpObservation({ name: 'fetch', arguments: { url: 'x' }, content: '{}' }),
    { message: '{}', observation: 'mcp', content: '{}', extras: { name: 'fetch', arguments: { url: 'x' } } },
  ],
];

describe('observations (V0 §4.2)', () => {
  test.each(BUILT)('%s', (_name, observation, expected) => {
    expect(observation).toStrictEqual(expected);
    expect(Object.keys(observation)).toEqual(Object.keys(expected));
    expect(Observation.parse(observation)).toEqual(observation);
  });

  test.each(BUILT)('%s: an unknown key in extras is refused', (_name, observation) => {
    expect(Observation.safeParse({ ...observation, extras: { ...observation.extras, extra: 1 } }).success).toBe(false);
  });

  test('every type is in the table', () => {
    const built = new Set(BUILT.map(([, { observation }]) => observation));
    expect([...built].toSorted()).toEqual(
      Observation.options.map((option) => option.shape.observation.value).toSorted(),
    );
  });

  test('extensions stand at the top level', () => {
    const extensions = {
      action_id: 'a',
      duration_ms: 1.5,
      truncated: true,
      output_file: '/o',
      id: 1,
      timestamp: 't',
      cause: 'c',
    };
    expect(Observation.parse({ ...errorObservation('x'), ...extensions })).toEqual({
      ...errorObservation('x'),
      ...extensions,
    });
  });

  test('a builder does not keep the caller’s objects', () => {
    const metadata = { ...METADATA };
    const observation = runObservation({ command: 'a', content: '', metadata, hidden: false });
    metadata.exit_code = 5;
    expect(observation.extras.metadata.exit_code).toBe(0);
  });
});

test('a refusal: an error, or for a hidden run what its client can take (V0 §4.1)', () => {
  expect(refusalObservation('No.', false)).toEqual(errorObservation('No.'));
  expect(refusalObservation('No.', true)).toMatchObject({
    observation: 'run',
    content: 'ERROR: No.',
    extras: { command: '', hidden: true, metadata: DEFAULT_METADATA },
  });
});

describe('truncateContent (V0 §4.2)', () => {
  const half = MAX_CONTENT_CODE_POINTS / 2;

  test.each([0, 1, 29_999, 30_000])('%i code points stay', (count) => {
    for (const text of ['x'.repeat(count), '😀'.repeat(count)])
      expect(truncateContent(text)).toEqual({ text, truncated: false });
  });

  test('30,001 are cut to 30,047', () => {
    for (const unit of ['x', '😀']) {
      const { text, truncated } = truncateContent(unit.repeat(30_001));
      expect(truncated).toBe(true);
      expect(text).toBe(unit.repeat(half) + TRUNCATION_NOTICE + unit.repeat(half));
      expect(Array.from(text)).toHaveLength(30_047);
    }
  });

  test('is what a naive cut makes, whatever stands at the borders', () => {
    const piece = fc.string({ unit: fc.constantFrom('a', '😀', '\ud83d', '\ude00', '\n'), maxLength: 40 });
    const filler = fc.constantFrom('x', '😀');
    fc.assert(
      fc.property(
        piece,
        piece,
        piece,
        filler,
        filler,
        fc.integer({ min: -45, max: 45 }),
        (head, middle, tail, a, b, shift) => {
          const text = head + a.repeat(half - 20) + middle + b.repeat(half - 20 + shift) + tail;
          expect(truncateContent(text)).toEqual(naiveCut(text));
        },
      ),
    );
  });

  test('a second cut changes nothing', () => {
    const once = truncateContent('\ud83d'.repeat(15_000) + 'é'.repeat(40_000) + '😀'.repeat(7)).text;
    expect(truncateContent(once).text).toBe(once);
  });
});

function naiveCut(text: string): { text: string; truncated: boolean } {
  const characters = Array.from(text);
  if (characters.length <= 30_000) return { text, truncated: false };
  const kept = [...characters.slice(0, 15_000), TRUNCATION_NOTICE, ...characters.slice(-15_000)];
  return { text: kept.join(''), truncated: true };
}

test.each([
  [1, '1.0'],
  [2.5, '2.5'],
  [120, '120.0'],
  [0, '0.0'],
  [-0, '-0.0'],
  [-3, '-3.0'],
  [0.1, '0.1'],
  [0.30000000000000004, '0.30000000000000004'],
  [0.0001, '0.0001'],
  [0.00012345, '0.00012345'],
  [0.00001, '1e-05'],
  [0.000012345, '1.2345e-05'],
  [1.5e-10, '1.5e-10'],
  [5e-324, '5e-324'],
  [123456.789, '123456.789'],
  [1e15, '1000000000000000.0'],
  [9007199254740992, '9007199254740992.0'],
  [1e16, '1e+16'],
  [1.5e16, '1.5e+16'],
  [1e22, '1e+22'],
  [1.7976931348623157e308, '1.7976931348623157e+308'],
  [Number.POSITIVE_INFINITY, 'inf'],
  [Number.NEGATIVE_INFINITY, '-inf'],
  [Number.NaN, 'nan'],
])('pythonFloat(%d) is %s', (n, expected) => {
  expect(pythonFloat(n)).toBe(expected);
});
