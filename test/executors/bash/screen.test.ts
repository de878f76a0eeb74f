import { describe, expect, it } from 'vitest';
import { Screen, type ScreenOptions } from '../../../executors/bash/screen.ts';

const OPTIONS: ScreenOptions = { columns: 1000, rows: 1000, historyLines: 10_000 };

function createScreen(options: Partial<ScreenOptions> = {}): Screen {
  return new Screen({ ...OPTIONS, ...options });
}

function shown(output: string | Buffer, options: Partial<ScreenOptions> = {}): string {
  const screen = createScreen(options);
  screen.write(Buffer.from(output));
  return withoutOuterLineFeeds(screen.take().text);
}

function withoutOuterLineFeeds(text: string): string {
  return text.replace(/^\n+|\n+$/g, '');
}

function lines(count: number, textOf: (n: number) => string): string {
  return Array.from({ length: count }, (_, index) => `${textOf(index + 1)}\r\n`).join('');
}

describe('controls', () => {
  it.each<[string, string, string]>([
    ['plain lines', 'one\r\ntwo\r\n', 'one\ntwo'],
    ['a carriage return overwrites', 'abcdef\rXY', 'XYcdef'],
    ['backspaces move left', 'abcd\b\bXY', 'abXY'],
    ['backspace stops at the first column', '\b\b\babc', 'abc'],
    ['a bare line feed keeps the column', 'ab\ncd\n', 'ab\n  cd'],
    ['vertical tab and form feed move down', 'a\vb\fc', 'a\n b\n  c'],
    ['bell and other controls are dropped', 'a\x07b\x00c\x01d\x0e\x0fe\x7ff', 'abcdef'],
    ['C1 controls are dropped', 'a\u0085b\u009bc', 'abc'],
    ['blank lines inside are kept', 'a\r\n\r\n\r\nb', 'a\n\n\nb'],
    ['leading and trailing blanks are kept', '  a  \r\nb ', '  a  \nb '],
    ['cells jumped over read as blanks', '\x1b[3Ca\x1b[2Cb\x1b[5C', '   a  b'],
  ])('%s', (_, output, text) => {
    expect(shown(output)).toBe(text);
  });
});

describe('tabs', () => {
  it.each<[string, string, string]>([
    ['stay tabs', 'all:\r\n\tcc -o x\ty\r\n', 'all:\n\tcc -o x\ty'],
    ['stay at the end of a line', 'a\t\r\nb', 'a\t\nb'],
    ['go to the next stop', 'a\tb\x1b[1G\x1b[8CX', 'a\tX'],
    ['become blanks when written into', 'a\tb\x1b[1G\x1b[3CX', 'a  X    b'],
    ['become blanks when their first column is overwritten', '\tb\rX', 'X       b'],
    ['only move over what is already there', '0123456789\r\tX', '01234567X9'],
    ['are expanded when shifted', 'x\ty\r\x1b[P', '       y'],
  ])('%s', (_, output, text) => {
    expect(shown(output)).toBe(text);
  });

  it('stop at the last column', () => {
    expect(shown('abcdefg\t\tX', { columns: 10 })).toBe('abcdefg\t\tX');
    expect(shown('abcdefghi\t\tX', { columns: 10 })).toBe('abcdefghiX');
  });
});

describe('characters', () => {
  it('are put together across every byte border', () => {
    const text = 'aé中😀👩‍💻e\u0301·—x';
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at += 1) {
      const screen = createScreen();
      screen.write(bytes.subarray(0, at));
      screen.write(bytes.subarray(at));
      expect(screen.take().text).toBe(text);
    }
    const screen = createScreen();
    for (const byte of bytes) screen.write(Buffer.from([byte]));
    expect(screen.take().text).toBe(text);
  });

  it.each<[string, number[], string]>([
    ['stray bytes', [0x61, 0xff, 0xfe, 0x62], 'ab'],
    ['a cut sequence', [0x61, 0xe4, 0xb8, 0x62], 'ab'],
    ['an overlong sequence', [0x61, 0xe0, 0x80, 0x80, 0xc0, 0xaf, 0x62], 'ab'],
    ['a surrogate', [0x61, 0xed, 0xa0, 0x80, 0x62], 'ab'],
    ['a code point too large', [0x61, 0xf4, 0x90, 0x80, 0x80, 0x62], 'ab'],
    ['a sequence cut by an escape', [0x61, 0xe4, 0xb8, 0x1b, 0x5b, 0x6d, 0x62], 'ab'],
  ])('invalid UTF-8 is dropped: %s', (_, bytes, text) => {
    expect(shown(Buffer.from(bytes))).toBe(text);
  });

  it('a replacement character that was printed is kept, beside invalid bytes too', () => {
    expect(shown(Buffer.from([0xef, 0xbf, 0xbd, 0xff, 0x61]))).toBe('\ufffda');
  });

  it('wide characters take two columns', () => {
    expect(shown('中文ab\x1b[5GX')).toBe('中文Xb');
    expect(shown('😀a\x1b[3GX')).toBe('😀X');
    expect(shown('中文a\x1b[2GX')).toBe(' X文a');
    expect(shown('中文a\rX')).toBe('X 文a');
  });

  it('a wide character that does not fit begins the next row of the same line', () => {
    expect(shown('abc中d', { columns: 4 })).toBe('abc中d');
  });

  it('marks, joiners and variation selectors attach to the character before', () => {
    expect(shown('e\u0301x\x1b[2GY')).toBe('e\u0301Y');
    expect(shown('ab\x1b[1Gc\u0308')).toBe('c\u0308b');
    expect(shown('❤️👨‍👩‍👧')).toBe('❤️👨‍👩‍👧');
    expect(shown('abc\u0301', { columns: 3 })).toBe('abc\u0301');
  });

  it('a byte order mark at the beginning is kept', () => {
    expect(shown('\ufeffabc')).toBe('\ufeffabc');
  });

  it('endless marks on one character are cut', () => {
    const text = shown(`a${'\u0301'.repeat(1_000_000)}b`);
    expect(text).toMatch(/^a\u0301+b$/);
    expect(text.length).toBeLessThan(100);
  });

  it('line drawing is mapped to box characters', () => {
    expect(shown('\x1b(0lqk\x1b(Bq')).toBe('┌─┐q');
    expect(shown('\x1b(0éq')).toBe('é─');
  });
});

describe('wrapped lines', () => {
  it('come back as one line', () => {
    for (const length of [1000, 1001, 5000, 300_000]) {
      const line = '0123456789'.repeat(Math.ceil(length / 10)).slice(0, length);
      expect(shown(`${line}\r\nnext`)).toBe(`${line}\nnext`);
    }
  });

  it('come back as one line with wide characters, blanks and tabs', () => {
    const line = '中 a\u0301\t😀'.repeat(40);
    expect(shown(line, { columns: 1000 })).toBe(line);
    expect(shown('中😀 '.repeat(3000))).toBe('中😀 '.repeat(3000));
  });

  it('end where a line feed was printed', () => {
    expect(shown('abcd\r\nef', { columns: 4 })).toBe('abcd\nef');
    expect(shown('abcdef\x1b[Hx\r\ny', { columns: 4 })).toBe('xbcd\nyf');
  });

  it('overwrite the last column with auto-wrap off', () => {
    expect(shown('\x1b[?7labcdefg\x1b[?7h', { columns: 4 })).toBe('abcg');
  });
});

describe('cursor and erasing', () => {
  it.each<[string, string, string]>([
    ['erase to the end of the line', 'wrong\r\x1b[Kright', 'right'],
    ['erase to the beginning of the line', 'abcdef\x1b[3D\x1b[1KX', '   Xef'],
    ['erase a line above', 'l1\r\nl2\r\n\x1b[1A\x1b[2Kl2b\r\n', 'l1\nl2b'],
    ['erase below', 'a\r\nb\r\nc\x1b[2;1H\x1b[J', 'a'],
    ['erase above', 'a\r\nb\r\ncd\x1b[3;1H\x1b[1J', ' d'],
    ['erase characters', 'abcdef\r\x1b[2X', '  cdef'],
    ['erased ends are not kept', 'abc   \x1b[5D\x1b[K', 'a'],
    ['insert characters', 'abc\r\x1b[2@', '  abc'],
    ['delete characters', 'abcdef\r\x1b[2P', 'cdef'],
    ['insert lines', 'a\r\nb\r\nc\x1b[2;1H\x1b[Lx', 'a\nx\nb\nc'],
    ['delete lines', 'a\r\nb\r\nc\x1b[2;1H\x1b[M', 'a\nc'],
    ['scroll up', 'a\r\nb\r\nc\x1b[S', 'b\nc'],
    ['scroll down', 'a\r\nb\x1b[T\x1b[Hx', 'x\na\nb'],
    ['up, down, right, left', '\x1b[3B\x1b[2A\x1b[4C\x1b[2DX', '  X'],
    ['next and previous line', 'ab\x1b[EcD\x1b[FX', 'Xb\ncD'],
    ['column and row', 'abc\x1b[2GX\x1b[2dY\x1b[1`Z', 'aXc\nZ Y'],
    ['relative moves', 'a\x1b[2ab\x1b[ec', 'a  b\n    c'],
    ['save and restore', 'ab\x1b[scd\x1b[uX\x1b7ef\x1b8Y', 'abXYf'],
    ['index, next line, reverse index', 'a\x1bDb\x1bEc\x1bMX', 'a\ncXb'.replace('cXb', ' X\nc')],
    ['repeat', '-\x1b[4b', '-----'],
    ['colours are ignored', '\x1b[1;31mred\x1b[0m \x1b[38:2:1:2:3mx\x1b[m', 'red x'],
    ['unknown modes are ignored', '\x1b[?25l\x1b[?2004ha\x1b[>4;2m\x1b[?u\x1b[!p\x1b[2 qb', 'ab'],
    ['a bad region is the whole screen', '\x1b[5;2ra\r\nb', 'a\nb'],
    ['full reset', 'abc\r\ndef\x1bcx', 'x'],
  ])('%s', (_, output, text) => {
    expect(shown(output)).toBe(text);
  });

  it('2,000 redraws of a progress line give one line', () => {
    const redraws = Array.from({ length: 2000 }, (_, n) => `\rpart ${n + 1} of 2000`).join('');
    expect(shown(`start\r\n${redraws}\r\ndone\r\n`)).toBe('start\npart 2000 of 2000\ndone');
  });

  it('several progress lines redrawn with the cursor give their last state', () => {
    let output = 'Pulling\r\n' + lines(5, (n) => `layer ${n}: waiting`);
    for (let step = 1; step <= 200; step += 1) {
      const layer = (step % 5) + 1;
      const up = 6 - layer;
      output += `\x1b[${up}A\x1b[2K\rlayer ${layer}: ${step} MB\x1b[${up}B\r`;
    }
    output += 'done\r\n';
    expect(shown(output)).toBe(
      'Pulling\nlayer 1: 200 MB\nlayer 2: 196 MB\nlayer 3: 197 MB\nlayer 4: 198 MB\nlayer 5: 199 MB\ndone',
    );
  });

  it('a region scrolls by itself, into the history when it begins at the top', () => {
    const rows = { rows: 5 };
    expect(shown('\x1b[1;4r\x1b[5;1Hbar\x1b[1;1H' + lines(8, (n) => `l${n}`), rows)).toBe(
      'l1\nl2\nl3\nl4\nl5\nl6\nl7\nl8\n\nbar',
    );
    expect(shown('top\x1b[2;3r\x1b[2;1Ha\r\nb\r\nc\r\nd', rows)).toBe('top\nc\nd');
  });
});

describe('clearing', () => {
  it('removes the earlier text, without counting it as dropped', () => {
    const screen = createScreen();
    screen.write(Buffer.from(`${lines(500, (n) => `old ${n}`)}\x1b[H\x1b[2J\x1b[3Jnew`));
    expect(screen.take()).toEqual({ text: 'new', droppedLines: 0, keptLines: 1 });
  });

  it('removes the history only when asked to', () => {
    const output = lines(8, (n) => `l${n}`);
    expect(shown(`${output}\x1b[2J\x1b[Hx`, { rows: 3 })).toBe('l1\nl2\nl3\nl4\nl5\nl6\nx');
    expect(shown(`${output}\x1b[2J\x1b[3J\x1b[Hx`, { rows: 3 })).toBe('x');
  });

  it('after a take reports what is on the cleared screen', () => {
    const screen = createScreen();
    screen.write(Buffer.from('a\r\nb\r\nc\r\n'));
    screen.take();
    screen.write(Buffer.from('\x1b[2J\x1b[H'));
    expect(withoutOuterLineFeeds(screen.take().text)).toBe('');
    screen.write(Buffer.from('new\r\n'));
    expect(withoutOuterLineFeeds(screen.take().text)).toBe('new');
  });
});

describe('the alternate screen', () => {
  const ENTER = '\x1b[?1049h\x1b[2J\x1b[H';
  const LEAVE = '\x1b[?1049l';

  it('is reported while it is active and leaves no trace', () => {
    const screen = createScreen({ rows: 24 });
    screen.write(Buffer.from(`$ vim x\r\n${ENTER}hello\r\n~\r\n~\x1b[24;1H"x" 1L\x1b[1;1H`));
    expect(screen.take().text).toBe(`hello\n~\n~${'\n'.repeat(21)}"x" 1L`);
    screen.write(Buffer.from(`${LEAVE}$ echo done\r\ndone\r\n`));
    expect(withoutOuterLineFeeds(screen.take().text)).toBe('$ vim x\n$ echo done\ndone');
    screen.write(Buffer.from(`${ENTER}secret${LEAVE}after`));
    expect(screen.take().text).toBe('after');
  });

  it.each([47, 1047])('works with mode %i', (mode) => {
    expect(shown(`a\x1b[?${mode}hinside\x1b[?${mode}lb`)).toBe('ab');
  });

  it('is reported whole when anything has changed, and not at all otherwise', () => {
    const screen = createScreen({ rows: 5 });
    screen.write(Buffer.from(`${ENTER}one\r\ntwo`));
    expect(screen.take().text).toBe('one\ntwo');
    expect(screen.take().text).toBe('');
    screen.write(Buffer.from('\x1b[H\x1b[2Jone\r\ntwo'));
    expect(screen.take().text).toBe('');
    screen.write(Buffer.from('\x1b[2;1Hsix'));
    expect(screen.take().text).toBe('one\nsix');
  });

  it('keeps no history and drops nothing that counts', () => {
    const screen = createScreen({ rows: 3 });
    screen.write(Buffer.from(`${ENTER}${lines(20_000, String)}end`));
    expect(screen.take()).toEqual({ text: '19999\n20000\nend', droppedLines: 0, keptLines: 3 });
  });
});

describe('control strings', () => {
  it.each<[string, string, string]>([
    ['title ended by a bell', 'a\x1b]0;title\x07b', 'ab'],
    ['title ended by ST', 'a\x1b]0;title\x1b\\b', 'ab'],
    ['link', '\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\', 'link'],
    ['device string with line ends', 'a\x1bPq#0\r\n#1\x1b\\b', 'ab'],
    ['others', 'a\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\b', 'ab'],
    ['cancelled', 'a\x1b]0;tit\x18b\x1b]0;tit\x1ac', 'abc'],
    ['ended by another sequence', 'a\x1b]0;title\x1b[31mb', 'ab'],
    ['ended by a line end', 'a\x1b]stray\r\nnext\r\n', 'a\nnext'],
    ['a sequence restarted', 'a\x1b[12\x1b[2Cb', 'a  b'],
    ['a sequence cancelled', 'a\x1b[12\x18b', 'ab'],
    ['controls inside a sequence are carried out', 'a\x1b[\r\n31mb', 'a\nb'],
    ['huge parameters', 'a\x1b[99999999999999999999Db', 'b'],
  ])('%s', (_, output, text) => {
    expect(shown(output)).toBe(text);
  });

  it('many parameters are harmless', () => {
    expect(shown(`a\x1b[${'1;'.repeat(100)}mb`)).toBe('ab');
    expect(shown(`a\x1b[${'1'.repeat(10_000)}b`)).toMatch(/^a1+b$/);
  });

  it.each(['\x1b]0;', '\x1bP', '\x1b_'])('%j without an end is given up after 64 KiB', (start) => {
    const text = shown(`a${start}${'z'.repeat(200 * 1024)}end`);
    expect(text.endsWith('zend')).toBe(true);
    expect(text.length).toBeGreaterThan(130 * 1024);
    expect(text.length).toBeLessThan(140 * 1024);
  });
});
