/** The forms of what is answered: texts, trees, addresses, pictures. */
import { describe, expect, test } from 'vitest';
import { toAddress } from '../../../executors/browser/address.ts';
import { type AxNode, formatTree } from '../../../executors/browser/axtree.ts';
import { drawMarks } from '../../../executors/browser/marks.ts';
import { decodePng, encodePng } from '../../../executors/browser/png.ts';
import { repr } from '../../../executors/browser/repr.ts';

test.each([
  ["it's", `"it's"`],
  [`it's "so"`, `'it\\'s "so"'`],
  ['a\tb\nc\\', `'a\\tb\\nc\\\\'`],
  ['\u00a0\u200b\u001b', `'\\xa0\\u200b\\x1b'`],
  ['שלום 😀', `'שלום 😀'`],
  [true, 'True'],
  [null, 'None'],
  [3, '3'],
  [0.5, '0.5'],
  [['a', 1], "['a', 1]"],
])('Python writes %j as %s', (value, text) => expect(repr(value)).toBe(text));

describe('addresses', () => {
  test.each([
    ['http://a.example/x y', 'http://a.example/x y'],
    [' localhost:8000/x ', 'http://localhost:8000/x'],
    ['127.0.0.1', 'http://127.0.0.1'],
    ['www.example.org', 'https://www.example.org'],
    ['example.org:8080/x', 'http://example.org:8080/x'],
    ['/workspace/a b.html', 'file:///workspace/a%20b.html'],
    ['data:text/html,hi', 'data:text/html,hi'],
    ['about:blank', 'about:blank'],
  ])('%s', (text, address) => expect(toAddress(text)).toBe(address));

  test.each([
    ['javascript:alert(1)', 'javascript: addresses are not opened'],
    ['JaVaScript:1', 'javascript: addresses are not opened'],
    ['chrome://settings', 'chrome: addresses are not opened; http:, https:'],
    ['view-source:http://x', 'view-source: addresses are not opened'],
    ['about:config', 'there is only about:blank'],
    ['http://', 'no valid address'],
    ['http://[::1', 'no valid address'],
    ['two words', 'no address'],
    ['', 'The address is empty'],
  ])('%s is refused', (text, reason) => expect(() => toAddress(text)).toThrow(reason));
});

test('the tree: indents, skipped nodes, redundant text, values, properties', () => {
  const node = (nodeId: string, role: string, rest: Partial<AxNode> & { text?: string } = {}): AxNode => {
    const { text, ...more } = rest;
    return {
      nodeId,
      role: { type: 'role', value: role },
      ...(text === undefined ? {} : { name: { type: 's', value: text } }),
      ...more,
    };
  };
  const nodes = [
    node('1', 'RootWebArea', {
      text: 'T',
      childIds: ['2'],
      properties: [{ name: 'focused', value: { type: 'b', value: true } }],
    }),
    node('2', 'none', { childIds: ['3', '4', '5', '9'] }),
    node('3', 'button', {
      text: ' Save ',
      browsergym_id: '7',
      childIds: ['6'],
      properties: [{ name: 'focusable', value: { type: 'b', value: true } }],
    }),
    node('4', 'generic', { text: '', childIds: ['8'] }),
    node('5', 'slider', {
      text: "it's",
      browsergym_id: 'a1',
      value: { type: 'n', value: 3 },
      properties: [
        { name: 'required', value: { type: 'b', value: false } },
        { name: 'checked', value: { type: 't', value: 'true' } },
      ],
    }),
    node('6', 'StaticText', { text: 'Save' }),
    node('8', 'StaticText', { text: 'alone', childIds: ['10'] }),
    node('9', 'LineBreak', { text: '\n' }),
    node('10', 'InlineTextBox', { text: 'alone' }),
  ];
  const shown = { visibility: 1, bbox: null, clickable: true, set_of_marks: true };
  expect(formatTree(nodes, { bids: new Map(), properties: { 7: shown } })).toBe(
    [
      `RootWebArea 'T', focused`,
      `\t[7] button 'Save', clickable`,
      `\tgeneric`,
      `\t\tStaticText 'alone'`,
      `\t[a1] slider "it's" value=3, checked='true'`,
    ].join('\n'),
  );
});

test('a tree whose nodes name each other ends', () => {
  const named = { type: 's', value: 'x' };
  const nodes: AxNode[] = [
    { nodeId: '1', role: named, name: named, childIds: ['2', '1'] },
    { nodeId: '2', role: named, name: named, childIds: ['1'] },
  ];
  expect(formatTree(nodes, { bids: new Map(), properties: {} })).toBe("x 'x'\n\tx 'x'");
});

test('a picture comes out as it went in, and marks are drawn where the elements are', async () => {
  const [width, height, channels] = [200, 100, 3];
  const pixels = Buffer.alloc(width * height * channels, 200);
  const png = await encodePng({ width, height, channels, pixels });
  expect((await decodePng(png)).pixels.equals(pixels)).toBe(true);
  const shown = { visibility: 1, clickable: true };
  const marked = await decodePng(
    await drawMarks(png, {
      a12: { ...shown, bbox: [50, 20, 100, 60], set_of_marks: true },
      13: { ...shown, bbox: [0, 0, 40, 20], set_of_marks: false },
      14: { ...shown, bbox: [-30, 90, 500, 500], set_of_marks: true },
    }),
  );
  const at = (x: number, y: number): number => marked.pixels[(y * width + x) * channels] ?? -1;
  expect(at(50, 50)).toBe(0);
  expect(at(149, 50)).toBe(0);
  expect(at(100, 50)).toBe(200);
  expect(at(5, 5)).toBe(200);
  expect(at(50, 20)).toBe(255);
  expect(at(51, 21)).toBe(0);
  await expect(decodePng(Buffer.from('no picture'))).rejects.toThrow('no PNG');
});
