import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isBinary } from '../../../executors/files/binary.ts';
import { decode, encode } from '../../../executors/files/encoding.ts';

/** The same text in Python's encodings. */
function encoded(text: string, codecs: readonly string[]): Buffer[] {
  const script = `import json,sys,base64
d = json.load(sys.stdin)
print(json.dumps([base64.b64encode(d['text'].encode(c)).decode() for c in d['codecs']]))`;
  const output = execFileSync('python3', ['-c', script], { input: JSON.stringify({ text, codecs }), encoding: 'utf8' });
  return (JSON.parse(output) as string[]).map((base64) => Buffer.from(base64, 'base64'));
}

const TEXTS: readonly (readonly [string, readonly string[]])[] = [
  [
    'Съешь же ещё этих мягких французских булок, да выпей чаю.\n',
    ['cp1251', 'koi8-r', 'utf-8-sig', 'utf-16', 'utf-32'],
  ],
  ['Voix ambiguë d’un cœur qui au zéphyr préfère les jattes de kiwis.\n', ['cp1252', 'utf-16-le', 'utf-16-be']],
  ['我能吞下玻璃而不伤身体。你好，世界！这是一个用来测试编码的文件。\n', ['gbk', 'gb18030', 'utf-8']],
  ['色は匂へど散りぬるを我が世誰ぞ常ならむ。これはテストです。\n', ['shift_jis', 'euc_jp']],
];

describe.each(TEXTS)('%s', (text, codecs) => {
  const versions = encoded(text, codecs);

  test.each(codecs)('in %s is text, and comes back byte for byte', async (codec) => {
    const bytes = versions[codecs.indexOf(codec)] ?? Buffer.alloc(0);
    expect(await isBinary('a.txt', bytes)).toBe(false);
    const decoded = await decode(bytes);
    expect(decoded.text).toBe(text);
    expect(await encode(decoded.text, decoded.encoding)).toEqual(bytes);
  });
});

test('a file says itself what it is', async () => {
  const [bytes] = encoded('# -*- coding: iso8859-5 -*-\nx = "ж"\n', ['iso8859-5']);
  expect((await decode(bytes ?? Buffer.alloc(0))).text).toContain('"ж"');
});

test.each(['base64', 'hex', 'internal', 'ucs2', 'ucs-2', 'utf16le', 'utf-16', 'UTF-32'])(
  'what is named is not the encoding of the file: %s',
  async (name) => {
    const text = `Content-Transfer-Encoding: ${name}\nSubject: d\xe9j\xe0 vu, caf\xe9 et th\xe9\n`;
    const decoded = await decode(Buffer.from(text, 'latin1'));
    expect(decoded.text).toContain(`Content-Transfer-Encoding: ${name}\n`);
  },
);

test('any bytes come back', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (array) => {
      const bytes = Buffer.from(array);
      const { text, encoding } = await decode(bytes);
      expect(await encode(text, encoding)).toEqual(bytes);
    }),
    { numRuns: 200 },
  );
});

test.each<[string, number[], boolean]>([
  ['a.pyc', [0x61], true],
  ['empty', [], false],
  ['ascii with a NUL', [0x61, 0, 0x62, 0x63], true],
  ['control codes of a terminal', [...Buffer.from('\x1b[31mred\x1b[0m\n')], false],
  ['PNG', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d], true],
  ['a character cut at the end', [...Buffer.from('é'.repeat(511)), 0x61, 0xc3], false],
])('%s', async (name, bytes, expected) => {
  expect(await isBinary(name, Buffer.from(bytes))).toBe(expected);
});
