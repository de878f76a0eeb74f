import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readCalls } from '../../../executors/browser/calls.ts';
import { faultLine } from '../../../executors/browser/fault.ts';
import { MAX_ACTION_CHARS, MAX_CALLS } from '../../../executors/browser/limits.ts';
import { reprText } from '../../../executors/browser/repr.ts';

function faultOf(text: string): string {
  try {
    readCalls(text);
  } catch (error) {
    return faultLine(error);
  }
  throw new Error(`taken: ${text}`);
}

describe('calls', () => {
  test.each([
    [`click('a51')`, [{ name: 'click', args: { bid: 'a51', button: 'left', modifiers: [] } }]],
    [
      `click("48", button="middle", modifiers=["Shift"])`,
      [{ name: 'click', args: { bid: '48', button: 'middle', modifiers: ['Shift'] } }],
    ],
    ['noop()', [{ name: 'noop', args: { wait_ms: 1000 } }]],
    ['noop(5e2,)', [{ name: 'noop', args: { wait_ms: 500 } }]],
    ['scroll(-50.5, +100)', [{ name: 'scroll', args: { delta_x: -50.5, delta_y: 100 } }]],
    [`fill('1', """a\n"b" 'c'""")`, [{ name: 'fill', args: { bid: '1', value: `a\n"b" 'c'` } }]],
    [`fill('1', r'a\\nb' "\\u00e9\\x41\\n")`, [{ name: 'fill', args: { bid: '1', value: 'a\\nbéA\n' } }]],
    [`select_option('a', ('x', "y"))`, [{ name: 'select_option', args: { bid: 'a', options: ['x', 'y'] } }]],
    [`press( # why\n'1' ,\n key_comb = 'Control+a')`, [{ name: 'press', args: { bid: '1', key_comb: 'Control+a' } }]],
    ["I look first (carefully), then goto('http://x') and so on.", [{ name: 'goto', args: { url: 'http://x' } }]],
    ["# click('1')\nhover('2')", [{ name: 'hover', args: { bid: '2' } }]],
  ])('%s', (text, calls) => expect(readCalls(text)).toEqual(calls));

  test('several, separated by anything', () => {
    expect(readCalls(`new_tab() tab_focus(0)\n\ntab_close(); go_back()`).map(({ name }) => name)).toEqual([
      'new_tab',
      'tab_focus',
      'tab_close',
      'go_back',
    ]);
  });
});

describe('what is none', () => {
  test.each([
    ['', 'ValueError: Received an empty action.'],
    ['just words', 'ValueError: Received an empty action.'],
    ['# only a comment', 'ValueError: Received an empty action.'],
    ['mouse_click(1, 2)', `NameError: Invalid action type 'mouse_click'. The functions are noop, goto, `],
    [`__import__('os').system('id')`, `NameError: Invalid action type '__import__'.`],
    ['click(5)', 'ValueError: expected a string, got 5'],
    ['click()', `TypeError: click(bid, button, modifiers): the argument 'bid' is missing.`],
    [`click('1', 'left', [], 3)`, 'TypeError: click(bid, button, modifiers) takes 3 arguments, but 4 were given.'],
    [`click('1', bid='2')`, `TypeError: click(bid, button, modifiers) got two values for 'bid'.`],
    [`click('1', speed=3)`, `TypeError: click(bid, button, modifiers) has no argument 'speed'.`],
    [`click('1', 'upper')`, `TypeError: click(bid, button, modifiers): button: expected 'left', 'middle' or 'right'`],
    [`tab_focus(1.5)`, 'TypeError: tab_focus(index): index: expected the number of a tab, from 0, got 1.5.'],
    [`noop(-1)`, 'TypeError: noop(wait_ms): wait_ms: expected milliseconds from 0 to'],
    [`goto(url)`, 'SyntaxError: line 1, column 6: expected a value: a string in quotes'],
    [`goto('http://x'`, 'SyntaxError: line 1, column 16: expected "," or ")", found the end of the text.'],
    [`noop()\nfill('1', 'open)`, `SyntaxError: line 2, column 11: expected the end of the string: its closing '`],
    [`fill('1', f'{x}')`, `SyntaxError: line 1, column 11: expected a plain string`],
    [`click(click('1'))`, 'SyntaxError: line 1, column 7: expected a value'],
    [`fill('1', '\\u12')`, 'SyntaxError: line 1, column 14: expected a complete escape'],
    [`press('1', key_comb='a', 'b')`, 'SyntaxError: line 1, column 26: expected a named argument'],
    ['foo(bar', 'SyntaxError: line 1, column 5: expected a value'],
    [`fill('1', ${'['.repeat(50)})`, 'SyntaxError: line 1, column 44: expected lists at most'],
  ])('%j', (text, fault) => expect(faultOf(text)).toContain(fault));

  test('more than the limits', () => {
    expect(faultOf('x'.repeat(1_000_000))).toBe(
      `ValueError: browser_actions has 1000000 characters; at most ${MAX_ACTION_CHARS} are taken. Send fewer calls, or upload long text as a file.`,
    );
    expect(faultOf('noop() '.repeat(MAX_CALLS + 1))).toContain(`more than ${MAX_CALLS} calls`);
  });
});

test('every string comes out as it went in, however it is quoted', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      fc.pre(!/[\ud800-\udfff]/.test(value.replaceAll(/[\ud800-\udbff][\udc00-\udfff]/g, '')));
      expect(readCalls(`fill('1', ${reprText(value)})`)).toEqual([{ name: 'fill', args: { bid: '1', value } }]);
    }),
  );
});

test('no text takes long, and none does anything but be read or refused', () => {
  const piece = fc.constantFrom(
    'click(',
    "'",
    '"',
    '"""',
    '(',
    ')',
    '[',
    ']',
    ',',
    '\\',
    '#',
    '\n',
    'a',
    '=',
    '1',
    ' ',
    'foo(',
    'noop()',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 200 }), (pieces) => {
      try {
        expect(readCalls(pieces.join('')).length).toBeGreaterThan(0);
      } catch (error) {
        expect(faultLine(error)).toMatch(/^(?:Syntax|Value|Name|Type)Error: /);
      }
    }),
  );
  for (const text of ["click('", 'a(', '"""', '((((', "x('''"])
    expect(faultOf(text.repeat(Math.floor(200_000 / text.length)))).toMatch(/^(?:Syntax|Value)Error: /);
});
