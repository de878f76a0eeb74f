/** agent_skills in the kernel: names, and the texts that V0's own unit tests pin (V0 §6.5). */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needsJupyter, needsPackage, runCell, startJupyterServer } from '../support/jupyter.ts';
import type { TestServer } from '../support/server.ts';

let server: TestServer;
let dir: string;

beforeEach(needsJupyter);
beforeAll(async () => {
  server = await startJupyterServer();
  dir = server.workingDir;
  writeFileSync(join(dir, 'lines.txt'), Array.from({ length: 1000 }, (_, index) => `L${index + 1}\n`).join(''));
  writeFileSync(join(dir, 'short.txt'), 'one\ntwo\nthree\n');
});
afterAll(() => server[Symbol.asyncDispose]());

const text = async (code: string): Promise<string> => (await runCell(server, code)).content;

/** What a window of a file looks like. */
function window(first: number, last: number, total = 1000): string[] {
  const above = first > 1 ? `(${first - 1} more lines above)` : '(this is the beginning of the file)';
  const below = last < total ? `(${total - last} more lines below)` : '(this is the end of the file)';
  const lines = Array.from({ length: last - first + 1 }, (_, index) => `${first + index}|L${first + index}`);
  return [`[File: ${dir}/lines.txt (${total} lines total)]`, above, ...lines, below];
}

test('all are in the namespace, and importable by the name of V0', async () => {
  const names =
    'find_file goto_line open_file scroll_down scroll_up search_dir search_file file_editor parse_pdf parse_docx parse_latex parse_pptx';
  expect(await text(`print(all(callable(globals()[n]) for n in "${names}".split()))`)).toBe('True');
  const plain = 'from openhands.runtime.plugins.agent_skills.agentskills import *\nprint(open_file.__module__)';
  expect(await text(plain)).toBe('openhands.runtime.plugins.agent_skills.file_ops');
});

describe('files through a window', () => {
  test('open, scroll, go to a line', async () => {
    expect((await text('open_file("lines.txt")')).split('\n')).toEqual([
      ...window(1, 100),
      '[Use `scroll_down` to view the next 100 lines of the file!]',
    ]);
    expect((await text('scroll_down()')).split('\n')).toEqual(window(101, 201));
    expect((await text('scroll_up()')).split('\n')).toEqual(window(1, 101));
    expect((await text('goto_line(500)')).split('\n')).toEqual(window(450, 550));
    expect((await text('goto_line(1000)')).split('\n')).toEqual(window(901, 1000));
    expect((await text('open_file("lines.txt", 50, 10)')).split('\n').slice(0, -1)).toEqual(window(45, 55));
  });

  test('errors say what is possible', async () => {
    expect(await text('open_file("missing.txt")')).toBe('ERROR: File missing.txt not found.');
    expect(await text('open_file("short.txt", 4)')).toBe('ERROR: Line number must be between 1 and 3');
    await server.request('POST', '/sessions/ipython:default/restart');
    for (const call of ['scroll_down()', 'scroll_up()', 'goto_line(1)'])
      expect(await text(call), call).toBe('ERROR: No file open. Use the open_file function first.');
    expect(await text('search_file("x")')).toBe('ERROR: No file specified or open. Use the open_file function first.');
  });

  test('search', async () => {
    expect(await text('search_file("t", "short.txt")')).toBe(
      '[Found 2 matches for "t" in short.txt]\nLine 2: two\nLine 3: three\n[End of matches for "t" in short.txt]',
    );
    expect(await text('search_file("zz", "short.txt")')).toBe('[No matches found for "zz" in short.txt]');
    expect(await text('search_dir("three")')).toBe(
      '[Found 1 matches for "three" in ./]\n./short.txt (Line 3): three\n[End of matches for "three" in ./]',
    );
    expect(await text('search_dir("zz")')).toBe('No matches found for "zz" in ./');
    expect(await text('find_file("short")')).toBe(
      '[Found 1 matches for "short" in ./]\n./short.txt\n[End of matches for "short" in ./]',
    );
    expect(await text('find_file("zz")')).toBe('[No matches found for "zz" in ./]');
    mkdirSync(join(dir, 'many'));
    for (let index = 0; index < 101; index += 1) writeFileSync(join(dir, 'many', `${index}.txt`), 'needle\n');
    expect(await text('search_dir("needle", "many")')).toBe(
      'More than 101 files matched for "needle" in many. Please narrow your search.',
    );
  });
});

describe('the editor as a function', () => {
  const call = async (args: string): Promise<Record<string, unknown>> => {
    const [, open, json = '', close] =
      /^<oh_aci_output_([0-9a-f]{32})>\n([^]*)\n<\/oh_aci_output_([0-9a-f]{32})>$/.exec(
        await text(`print(file_editor(${args}))`),
      ) ?? [];
    expect(open).toBe(close);
    return JSON.parse(json) as Record<string, unknown>;
  };

  test('answers as the action does, in a marked object', async () => {
    const path = join(dir, 'edited.txt');
    expect(await call(`"create", "${path}", file_text="a\\nb\\n"`)).toEqual({
      output: `File created successfully at: ${path}`,
      error: null,
      path,
      prev_exist: false,
      old_content: null,
      new_content: 'a\nb\n',
      formatted_output_and_error: `File created successfully at: ${path}`,
    });
    for (const [args, action] of [
      [`"view", "${path}"`, { command: 'view' }],
      [`"str_replace", "${path}", old_str="b", new_str="c\\nd"`, undefined],
      [`"str_replace", "${path}", old_str="x", new_str="y"`, { command: 'str_replace', old_str: 'x', new_str: 'y' }],
      [`"insert", "${path}", insert_line=99, new_str="y"`, { command: 'insert', insert_line: 99, new_str: 'y' }],
      [`"create", "${path}", file_text=""`, { command: 'create', file_text: '' }],
      [`"nonsense", "${path}"`, { command: 'nonsense' }],
      [`"view", "relative.txt", view_range=[1, 2]`, undefined],
    ] as const) {
      const { formatted_output_and_error: shown } = await call(args);
      if (action === undefined) continue;
      expect(shown, args).toBe((await server.action({ action: 'edit', args: { path, ...action } })).content);
    }
    expect(readFileSync(path, 'utf8')).toBe('a\nc\nd\n');
    expect((await call(`"undo_edit", "${path}"`)).output).toContain(`Last edit to ${path} undone successfully. `);
    expect(readFileSync(path, 'utf8')).toBe('a\nb\n');
  });

  test('keeps CR LF, and what it does not touch', async () => {
    const path = join(dir, 'crlf.txt');
    writeFileSync(path, 'a\r\nb\r\nc\r\n');
    await call(`"str_replace", "${path}", old_str="b\\nc", new_str="B\\nC"`);
    await call(`"insert", "${path}", insert_line=0, new_str="first"`);
    expect(readFileSync(path, 'utf8')).toBe('first\r\na\r\nB\r\nC\r\n');
    writeFileSync(path, 'a\r\nb\nc\r\n');
    await call(`"str_replace", "${path}", old_str="b", new_str="B"`);
    expect(readFileSync(path, 'utf8')).toBe('a\r\nB\nc\r\n');
  });
});

describe('documents as text', () => {
  test('docx and pptx', async (context) => {
    needsPackage(context, 'docx');
    needsPackage(context, 'pptx');
    await text(
      'import docx\nd = docx.Document(); d.add_paragraph("hello"); d.add_paragraph("world"); d.save("a.docx")',
    );
    expect(await text('parse_docx("a.docx")')).toBe(
      '[Reading DOCX file from a.docx]\n@@ Page 1 @@\nhello\n\n@@ Page 2 @@\nworld',
    );
    await text(
      'import pptx\np = pptx.Presentation()\nfor t in ("One", "Two"): p.slides.add_slide(p.slide_layouts[5]).shapes.title.text = t\np.save("a.pptx")',
    );
    expect(await text('parse_pptx("a.pptx")')).toBe(
      '[Reading PowerPoint file from a.pptx]\n@@ Slide 1 @@\nOne\n\n@@ Slide 2 @@\nTwo',
    );
  });

  test('LaTeX, PDF, and what is none', async (context) => {
    needsPackage(context, 'pylatexenc');
    needsPackage(context, 'pypdf');
    writeFileSync(join(dir, 'a.tex'), '\\textbf{bold} and $x^2$');
    expect(await text('parse_latex("a.tex")')).toBe('[Reading LaTex file from a.tex]\nbold and x^2');
    await text(
      'import pypdf\nw = pypdf.PdfWriter(); w.add_blank_page(72, 72); w.add_blank_page(72, 72); w.write("a.pdf")',
    );
    expect(await text('parse_pdf("a.pdf")')).toMatch(
      /^\[Reading PDF file from a\.pdf\]\n@@ Page 1 @@\n\n\n?@@ Page 2 @@$/,
    );
    expect(await text('parse_pdf("short.txt")')).toMatch(
      /^\[Reading PDF file from short\.txt\]\nError reading PDF file: /,
    );
  });
});
