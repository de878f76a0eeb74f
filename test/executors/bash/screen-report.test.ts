import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { Screen, type ScreenOptions } from '../../../executors/bash/screen.ts';
import { MAX_GRID_UNITS } from '../../../executors/bash/screen-grid.ts';

const OPTIONS: ScreenOptions = { columns: 1000, rows: 1000, historyLines: 10_000 };

function createScreen(options: Partial<ScreenOptions> = {}): Screen {
  return new Screen({ ...OPTIONS, ...options });
}

function write(screen: Screen, output: string): void {
  screen.write(Buffer.from(output));
}

describe('take', () => {
  it('reports only what is new', () => {
    const screen = createScreen();
    write(screen, 'one\r\ntwo\r\n');
    expect(screen.take().text).toBe('one\ntwo\n');
    expect(screen.take().text).toBe('');
    write(screen, 'three\r\n');
    expect(screen.take().text).toBe('three\n');
  });

  it('reports the rest of a continued row', () => {
    const screen = createScreen();
    write(screen, 'Enter name: ');
    expect(screen.take().text).toBe('Enter name: ');
    write(screen, 'John\r\nHello\r\n');
    expect(screen.take().text).toBe('John\nHello\n');
  });

  it('reports the rest of a wrapped line without a line feed', () => {
    const screen = createScreen({ columns: 4 });
    write(screen, 'abcdef');
    expect(screen.take().text).toBe('abcdef');
    write(screen, 'ghijk');
    expect(screen.take().text).toBe('ghijk');
  });

  it('reports a redrawn last row as a whole', () => {
    const screen = createScreen();
    write(screen, 'start\r\n 10%');
    screen.take();
    write(screen, '\r 20%');
    expect(screen.take().text).toBe(' 20%');
  });

  it('reports from the first changed row on', () => {
    const screen = createScreen();
    write(screen, 'a\r\nb\r\nc\r\nd\r\n');
    screen.take();
    write(screen, '\x1b[3A\x1b[2KB\r\x1b[3B');
    expect(screen.take().text).toBe('B\nc\nd\n');
  });

  it('reports nothing for rows redrawn with the same text', () => {
    const screen = createScreen();
    write(screen, 'a\r\nb\r\nc\r\n');
    screen.take();
    write(screen, '\x1b[3A\x1b[2Ka\r\n\x1b[2Kb\r\n\x1b[2Kc\r\n');
    expect(screen.take().text).toBe('');
  });

  it('reports rows moved by a region from where they moved', () => {
    const screen = createScreen({ rows: 5 });
    write(screen, 'a\r\nb\r\nc\r\nd\r\n');
    screen.take();
    write(screen, '\x1b[2;1H\x1b[L');
    expect(screen.take().text.replace(/\n+$/, '')).toBe('\nb\nc\nd');
  });

  it('reports what is left when the last reported row was dropped', () => {
    const screen = createScreen({ rows: 2, historyLines: 2 });
    write(screen, 'a\r\nb');
    screen.take();
    write(screen, '\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6');
    expect(screen.take()).toEqual({ text: '3\n4\n5\n6', droppedLines: 4, keptLines: 4 });
  });

  it('gives the same again after a peek', () => {
    const screen = createScreen();
    write(screen, 'abc\r\n');
    const report = { text: 'abc\n', droppedLines: 0, keptLines: 1 };
    expect(screen.peek()).toEqual(report);
    expect(screen.take()).toEqual(report);
    expect(screen.peek()).toEqual({ ...report, text: '' });
  });
});

describe('reset', () => {
  it.each<[string, string]>([
    ['text', 'old\r\n'],
    ['history', 'old\r\n'.repeat(20_000)],
    ['an unfinished sequence', '\x1b[3'],
    ['an unfinished string', '\x1b]0;title'],
    ['an unfinished character', ''],
    ['the alternate screen', '\x1b[?1049hinside'],
    ['line drawing', '\x1b(0'],
    ['a region', '\x1b[2;3r\x1b[?7l'],
  ])('forgets %s', (_, before) => {
    const screen = createScreen();
    screen.write(before === '' ? Buffer.from([0xe4, 0xb8]) : Buffer.from(before));
    screen.peek();
    screen.reset();
    write(screen, 'mnq\r\n');
    expect(screen.take()).toEqual({ text: 'mnq\n', droppedLines: 0, keptLines: 1 });
  });

  it('forgets output not yet parsed', () => {
    const screen = createScreen();
    write(screen, 'old\r\n');
    screen.reset();
    expect(screen.take().text).toBe('');
  });
});

describe('signature', () => {
  it('changes with what is visible', () => {
    const screen = createScreen();
    const first = screen.signature();
    expect(screen.signature()).toBe(first);
    write(screen, 'a');
    const second = screen.signature();
    expect(second).not.toBe(first);
    write(screen, '\rb');
    expect(screen.signature()).not.toBe(second);
  });

  it.each<[string, string]>([
    ['the same characters', '\r[ok] spin'],
    ['the line erased and redrawn', '\r\x1b[2K\x1b[32m[ok]\x1b[0m spin'],
    ['the screen cleared and redrawn', '\x1b[2J\x1b[Hfirst\r\n[ok] spin'],
    ['cursor moves', '\x1b[A\x1b[5C\x1b[?25l'],
    ['a title', '\x1b]0;working\x07'],
  ])('does not change with %s', (_, redraw) => {
    const screen = createScreen();
    write(screen, 'first\r\n[ok] spin');
    const before = screen.signature();
    write(screen, redraw);
    expect(screen.signature()).toBe(before);
  });

  it('changes when the same text scrolls by, when screens switch, and with reset', () => {
    const screen = createScreen({ rows: 3 });
    write(screen, 'y\r\n'.repeat(10));
    const seen = [screen.signature()];
    write(screen, 'y\r\n');
    seen.push(screen.signature());
    write(screen, '\x1b[?1049h');
    seen.push(screen.signature());
    screen.reset();
    seen.push(screen.signature());
    expect(new Set(seen).size).toBe(4);
  });

  it('sees output that a later clear hides', () => {
    const screen = createScreen();
    const before = screen.signature();
    write(screen, 'x\x1b[2J\x1b[H');
    expect(screen.signature()).toBe(before);
  });
});

describe('limits', () => {
  it('50,000 lines keep a window and count the rest', () => {
    const screen = createScreen();
    for (let n = 1; n <= 50_000; n += 1) write(screen, `Line ${n}\r\n`);
    const { text, droppedLines, keptLines } = screen.take();
    const first = Number(/^Line (\d+)\n/.exec(text)?.[1]);
    expect(first).toBeGreaterThanOrEqual(38_637);
    expect(first).toBeLessThanOrEqual(40_000);
    expect(droppedLines).toBe(first - 1);
    expect(keptLines).toBe(50_000 - droppedLines);
    expect(text.endsWith('Line 50000\n')).toBe(true);
  });

  it('40 MB of short lines are counted exactly', () => {
    const screen = createScreen();
    const chunk = Buffer.from('y\r\n'.repeat(20_000));
    for (let n = 0; n < 700; n += 1) screen.write(chunk);
    const { text, droppedLines, keptLines } = screen.take();
    expect(droppedLines + keptLines).toBe(700 * 20_000);
    expect(text).toBe('y\n'.repeat(keptLines));
  });

  it('coloured lines that are dropped unread are counted like any others', () => {
    const screen = createScreen();
    let written = 0;
    for (let n = 0; n < 200; n += 1) {
      let chunk = '';
      for (let line = 0; line < 1000; line += 1) {
        written += 1;
        chunk += `\x1b[32mok\x1b[0m ${written}\r\n`;
      }
      write(screen, chunk);
    }
    const { text, droppedLines, keptLines } = screen.take();
    expect(droppedLines + keptLines).toBe(written);
    expect(text.startsWith(`ok ${droppedLines + 1}\n`)).toBe(true);
  });

  it('text kept in view by the cursor is not dropped', () => {
    const screen = createScreen({ rows: 10, historyLines: 10 });
    write(screen, '\x1b[5;8r\x1b[5;1H');
    write(screen, 'y\r\n'.repeat(100_000));
    write(screen, '\x1b[r\x1b[1;1Htop');
    expect(screen.take()).toMatchObject({ text: `top${'\n'.repeat(4)}y\ny\ny`, droppedLines: 0 });
  });

  it('a line of 30 MB loses its beginning', () => {
    const screen = createScreen();
    const piece = Buffer.from('0123456789'.repeat(6000));
    for (let n = 0; n < 500; n += 1) screen.write(piece);
    write(screen, '\r\nend');
    const { text, droppedLines, keptLines } = screen.take();
    expect(droppedLines).toBe(1);
    expect(keptLines).toBe(2);
    expect(text.length).toBeLessThanOrEqual(MAX_GRID_UNITS + 1000);
    expect(text.length).toBeGreaterThan(MAX_GRID_UNITS - 10_000);
    expect(text.endsWith('0123456789\nend')).toBe(true);
  });

  it('a line of 30 MB in one write is the same', () => {
    const screen = createScreen();
    screen.write(Buffer.alloc(30_000_000, 'z'));
    const { text, droppedLines } = screen.take();
    expect(droppedLines).toBe(1);
    expect(text).toMatch(/^z+$/);
    expect(text.length).toBeLessThanOrEqual(MAX_GRID_UNITS);
  });

  it.each<[string, string]>([
    ['unterminated strings', '\x1b]0;'.padEnd(1000, 'x')],
    ['cursor moves', '\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H'],
    ['rows edited in place', '\x1b[7;3H中\tx\x1b[9;900Hy\x1b[12;40H\x1b[@é'],
    ['single characters between colours', 'a\x1b[1mb\x1b[m'],
    ['one wide line', '中文\x1b[C'],
    ['rows full of marks', `${'a\u0301\u0302\u0303\u0304'.repeat(100)}\x1b[K\r\n`],
  ])('memory stays bounded over 10 MB of %s', (_, unit) => {
    const screen = createScreen();
    const chunk = Buffer.from(unit.repeat(Math.ceil(60_000 / unit.length)));
    const before = bytesInUse();
    for (let n = 0; n < 160; n += 1) screen.write(chunk);
    expect(bytesInUse() - before).toBeLessThan(32 * 1024 * 1024);
    expect(screen.take().text.length).toBeLessThanOrEqual(MAX_GRID_UNITS + OPTIONS.rows);
  });
});

function bytesInUse(): number {
  setFlagsFromString('--expose-gc');
  const collectGarbage: unknown = runInNewContext('gc');
  if (typeof collectGarbage === 'function') collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
