/** `view` of office files and PDF as Markdown (V0 §7.5). */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pdfBomb, pdfOf, writeDocument, writeLongDocument, writeSlides, writeWorkbook } from '../support/office.ts';
import { cancel, look, post } from '../support/actions.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});

afterAll(() => server[Symbol.asyncDispose]());

const pathOf = (name: string): string => join(server.workingDir, name);

async function view(name: string): Promise<string> {
  const path = pathOf(name);
  const edited = await server.action({ action: 'edit', args: { path, command: 'view' } });
  const read = await server.action({ action: 'read', args: { path, impl_source: 'oh_aci' } });
  expect(read.content).toBe(edited.content);
  return edited.content;
}

const shown = (name: string, text: string): string =>
  `Here's the content of the file ${pathOf(name)} displayed in Markdown format:\n${text}\n`;

const failure = (name: string, reason: string): string =>
  `ERROR:\nError in converting file to Markdown: ${reason}. Please use Python code to read ${pathOf(name)}`;

test('a document', async () => {
  writeDocument(pathOf('a.DOCX'));
  expect(await view('a.DOCX')).toBe(
    shown(
      'a.DOCX',
      '# Größe & Maß\n\nSome **bold** 日本語.\n\n*   first\n*   second\n\n|     |     |\n| --- | --- |\n| a   | b   |\n| 1   | 2   |',
    ),
  );
});

test('a workbook: each sheet a table', async () => {
  writeWorkbook(pathOf('a.xlsx'));
  expect(await view('a.xlsx')).toBe(
    shown(
      'a.xlsx',
      '## People\n| name | age | born |\n| --- | --- | --- |\n| Ada \\| Łovelace | 36.5 | 2000-01-01T00:00:00.000Z |\n| two lines | 73 |  |\n\n## Empty\n|  |\n|  |',
    ),
  );
});

test('slides, in the order of their numbers', async () => {
  writeSlides(pathOf('a.pptx'), 11);
  const slides = Array.from({ length: 11 }, (_, index) => index + 1);
  expect(await view('a.pptx')).toBe(
    shown('a.pptx', slides.map((n) => `<!-- Slide number: ${n} -->\n# Title ${n}\nÜnï <${n}>`).join('\n\n')),
  );
});

test('a PDF, page by page', async () => {
  writeFileSync(pathOf('a.pdf'), pdfOf(['First page', 'Second \\(page\\)']));
  expect(await view('a.pdf')).toBe(shown('a.pdf', 'First page\n\nSecond (page)'));
});

/** Every function that a script can reach from the names of the language. */
function builtIns(): Map<string, unknown> {
  const found = new Map<string, unknown>();
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    const value: unknown = Object.getOwnPropertyDescriptor(globalThis, name)?.value;
    if (value === globalThis || (typeof value !== 'function' && typeof value !== 'object') || value === null) continue;
    found.set(name, value);
    const prototype: unknown = 'prototype' in value ? value.prototype : undefined;
    for (const owner of [value, prototype]) {
      if (typeof owner !== 'object' && typeof owner !== 'function') continue;
      for (const [key, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(owner ?? {})))
        found.set(`${name}${owner === prototype ? '.prototype' : ''}.${key}`, descriptor.value);
    }
  }
  return found;
}

test('after a PDF the built-in functions of the server are the same', async () => {
  const before = builtIns();
  expect([...before.keys()]).toEqual(
    expect.arrayContaining(['JSON.parse', 'Array.prototype.push', 'Promise.prototype.then']),
  );
  writeFileSync(pathOf('same.pdf'), pdfOf(['Text']));
  expect(await view('same.pdf')).toBe(shown('same.pdf', 'Text'));
  const changed = [...builtIns()].filter(([name, value]) => !Object.is(value, before.get(name)));
  expect(changed.map(([name]) => name)).toEqual([]);
});

test.each([
  ['PDF', 'bomb.pdf', (path: string) => writeFileSync(path, pdfBomb(2048))],
  ['document', 'long.docx', (path: string) => writeLongDocument(path, 300_000)],
])('a %s that takes too much ends with an error, and the server answers meanwhile', async (_, name, write) => {
  const path = pathOf(name);
  write(path);
  let isOver = false;
  const answer = server.action({ action: 'edit', args: { path, command: 'view' } }).finally(() => (isOver = true));
  let alive = 0;
  while (!isOver && alive < 3) if ((await server.request('GET', '/alive')).status === 200) alive += 1;
  expect(alive).toBe(3);
  expect((await answer).content).toMatch(/: the file takes (too much memory|more than 30 s) to read\. /);
});

test('a document whose view is cancelled is read no longer: the next one has its turn', async () => {
  writeLongDocument(pathOf('cancelled.docx'), 200_000);
  writeDocument(pathOf('next.docx'));
  const action = { action: 'edit', args: { path: pathOf('cancelled.docx'), command: 'view' } };
  const { json } = await post(server, action, { prefer: 'respond-async' });
  const id = json.action_id as string;
  await until('it is at work', async () => (await look(server, id)).status === 'running');
  expect((await cancel(server, id)).observation?.content).toContain('cancelled');
  expect(await view('next.docx')).toContain('Some **bold**');
});

test('long texts are cut, and say so', async () => {
  writeFileSync(pathOf('long.pdf'), pdfOf(Array.from({ length: 450 }, (_, index) => `${index} ${'x'.repeat(40)}`)));
  const content = await view('long.pdf');
  expect(content.length).toBeLessThan(17_000);
  expect(content).toContain('<response clipped><NOTE>Due to the max output limit, only part of this file');
  expect(content).toContain('Please use Python libraries to view the entire file');
});

test.each(['docx', 'xlsx', 'pptx', 'pdf'])('what only calls itself %s is told', async (extension) => {
  const name = `none.${extension}`;
  writeFileSync(pathOf(name), 'no such thing');
  expect(await view(name)).toMatch(
    /^ERROR:\nError in converting file to Markdown: .+\. Please use Python code to read /,
  );
});

test('an office file that unpacks to too much is refused', async () => {
  const script = `import zipfile,sys
z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)
z.writestr('word/document.xml', bytes(300_000_000)); z.close()`;
  execFileSync('python3', ['-c', script, pathOf('bomb.docx')]);
  expect(await view('bomb.docx')).toBe(failure('bomb.docx', 'the file unpacks to more than 268435456 bytes'));
});

test.each(['mp3', 'wav', 'm4a', 'flac'])('for sound the answer names what is missing: %s', async (extension) => {
  const name = `a.${extension}`;
  writeFileSync(pathOf(name), 'sound');
  expect(await view(name)).toBe(failure(name, `this server has no speech recognition for .${extension} files`));
});
