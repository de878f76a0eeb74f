/** `read`, `write` and `edit` over HTTP, beyond V0's own tests. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { MAX_READ_BYTES } from '../../executors/files/limits.ts';
import { type RunReply, TestServer } from '../support/server.ts';

let server: TestServer;
let dir: string;
let count = 0;

beforeAll(async () => {
  server = await TestServer.start();
});

afterAll(() => server[Symbol.asyncDispose]());

beforeEach(() => {
  count += 1;
  dir = join(server.workingDir, `case-${count}`);
  mkdirSync(dir);
});

const read = (path: string, args = {}): Promise<RunReply> => server.action({ action: 'read', args: { path, ...args } });
const write = (path: string, content: string, args = {}): Promise<RunReply> =>
  server.action({ action: 'write', args: { path, content, ...args } });
const edit = (path: string, args: object): Promise<RunReply> =>
  server.action({ action: 'edit', args: { path, ...args } });

async function contentOf(path: string, args: object): Promise<string> {
  return (await edit(path, args)).content;
}

function fileWith(content: string | Uint8Array, name = 'file.txt'): string {
  const path = join(dir, name);
  writeFileSync(path, content);
  return path;
}

describe('read', () => {
  test.each([
    [0, -1, 'a\nb\nc\n'],
    [1, -1, 'b\nc\n'],
    [0, 1, 'a\n'],
    [1, 2, 'b\n'],
    [2, 3, 'c\n'],
    [0, 99, 'a\nb\nc\n'],
    [3, -1, ''],
    [-5, 1, 'a\n'],
  ])('lines from %i to %i', async (start, end, content) => {
    expect(await read(fileWith('a\nb\nc\n'), { start, end })).toMatchObject({ observation: 'read', content });
  });

  test('line ends become LF, and relative paths start in the directory of the shell', async () => {
    fileWith('a\r\nb\rc', 'ends.txt');
    await server.run(`cd ${dir}`);
    const { body, content } = await read('ends.txt');
    expect(content).toBe('a\nb\nc');
    expect(body.extras).toEqual({ path: `${dir}/ends.txt`, impl_source: 'default' });
    expect(body.message).toBe(`I read the file ${dir}/ends.txt.`);
    await server.run(`cd ${server.workingDir}`);
  });

  test.each([
    ['i.png', 'image/png'],
    ['i.JPG', 'image/jpeg'],
    ['d.pdf', 'application/pdf'],
    ['v.mp4', 'video/mp4'],
    ['v.ogg', 'audio/ogg'],
  ])('%s is a data URL, by its absolute path too', async (name, type) => {
    const bytes = Buffer.from([0, 1, 2, 255]);
    const { content } = await read(fileWith(bytes, name));
    expect(content).toBe(`data:${type};base64,${bytes.toString('base64')}`);
  });

  test('errors', async () => {
    const missing = `${dir}/none`;
    expect(await read(missing)).toMatchObject({
      observation: 'error',
      content: `File not found: ${missing}. Your current working directory is ${server.workingDir}.`,
    });
    expect((await read(dir)).content).toBe(`Path is a directory: ${dir}. You can only read files`);
    expect((await read('/bin/ls')).content).toBe('ERROR_BINARY_FILE');
    const latin = fileWith(Buffer.from('caf\xe9 au lait\n', 'latin1'));
    expect((await read(latin)).content).toBe(`File could not be decoded as utf-8: ${latin}.`);
    expect((await read(`${latin}/x`)).observation).toBe('error');
    expect((await read(`${dir}/${'x'.repeat(256)}`)).content).toContain('File name too long');
  });

  test('nothing blocks: pipes, devices, sockets, loops', async () => {
    execFileSync('mkfifo', [join(dir, 'pipe')]);
    symlinkSync('loop', join(dir, 'loop'));
    const socket = createServer().listen(join(dir, 'socket'));
    for (const path of [`${dir}/pipe`, '/dev/zero', '/dev/tty', `${dir}/loop`, `${dir}/socket`]) {
      expect((await read(path)).observation, path).toBe('error');
      expect((await write(path, 'x')).observation, path).toBe('error');
      expect((await edit(path, { command: 'view' })).content, path).toContain('ERROR:');
    }
    socket.close();
  });

  test('files of the kernel, which have no size', async () => {
    expect((await read('/proc/self/status')).content).toContain('Pid:');
    expect((await edit('/proc/self/status', { command: 'view' })).content).toContain('Pid:');
    expect((await read('/proc/kmsg')).body.observation).toBe('error');
    expect((await write('/proc/version', 'x')).observation).toBe('error');
  });

  test('a file that is too large is refused whole, and read in part', async () => {
    const path = fileWith(`first\nsecond\n${'x'.repeat(MAX_READ_BYTES)}`);
    const whole = await read(path);
    expect(whole.observation).toBe('error');
    expect(whole.content).toContain('File is too large');
    expect((await read(path, { start: 1, end: 2 })).content).toBe('second\n');
  });
});

describe('write', () => {
  test('adds a line end, makes directories, and answers the resolved path', async () => {
    const path = `${dir}/new/deep/a.txt`;
    const { body } = await write(path, 'Hello');
    expect(body).toMatchObject({ observation: 'write', content: '', extras: { path } });
    expect(readFileSync(path, 'utf8')).toBe('Hello\n');
    await write(path, '');
    expect(readFileSync(path, 'utf8')).toBe('\n');
  });

  test.each([
    ['a\nb\nc\n', 1, 2, 'NEW', 'a\nNEW\nc\n'],
    ['a\nb\nc\n', 0, 1, 'NEW', 'NEW\nb\nc\n'],
    ['a\nb\nc\n', 2, -1, 'NEW', 'a\nb\nNEW\n'],
    ['a\r\nb\r\nc\r\n', 1, 2, 'X\nY', 'a\r\nX\r\nY\r\nc\r\n'],
    ['a\nb', 2, -1, 'c', 'a\nb\nc\n'],
  ])('%j, lines %i to %i', async (old, start, end, content, expected) => {
    const path = fileWith(old);
    await write(path, content, { start, end });
    expect(readFileSync(path, 'utf8')).toBe(expected);
  });

  test('a file in another encoding stays as it is', async () => {
    const bytes = Buffer.from('caf\xe9\n', 'latin1');
    const path = fileWith(bytes);
    expect((await write(path, 'x')).content).toBe(`File could not be decoded as utf-8: ${path}`);
    expect(readFileSync(path)).toEqual(bytes);
  });

  test('errors', async () => {
    expect((await write(dir, 'x')).content).toBe(`Path is a directory: ${dir}. You can only write to files`);
    expect((await write(`${fileWith('x')}/y`, 'x')).observation).toBe('error');
    expect((await write(`${dir}/a`, 'lone \ud800')).observation).toBe('error');
    expect(readdirSync(dir)).toEqual(['file.txt']);
  });

  test('a name of 255 bytes', async () => {
    const path = join(dir, 'x'.repeat(255));
    expect((await write(path, 'a')).observation).toBe('write');
    expect((await edit(path, { command: 'str_replace', old_str: 'a', new_str: 'b' })).content).toContain('edited');
    expect(readFileSync(path, 'utf8')).toBe('b\n');
  });
});

describe('what a file is besides its bytes', () => {
  test('mode and link stay', async () => {
    const path = fileWith('one\n', 'run.sh');
    chmodSync(path, 0o750);
    symlinkSync('run.sh', join(dir, 'link'));
    await edit(join(dir, 'link'), { command: 'str_replace', old_str: 'one', new_str: 'two' });
    await write(join(dir, 'link'), 'three', { start: 1 });
    expect(readFileSync(path, 'utf8')).toBe('two\nthree\n');
    expect(lstatSync(join(dir, 'link')).isSymbolicLink()).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o750);
  });

  test('hard links stay the same file', async () => {
    const path = fileWith('one\n');
    linkSync(path, join(dir, 'other'));
    await edit(path, { command: 'insert', insert_line: 0, new_str: 'zero' });
    await edit(path, { command: 'str_replace', old_str: 'one\n', new_str: '' });
    expect(readFileSync(join(dir, 'other'), 'utf8')).toBe('zero\n');
    expect(statSync(path).ino).toBe(statSync(join(dir, 'other')).ino);
  });

  test('a link that points nowhere yet makes the file', async () => {
    mkdirSync(join(dir, 'sub'));
    symlinkSync('sub/made.txt', join(dir, 'link'));
    await write(join(dir, 'link'), 'made');
    expect(readFileSync(join(dir, 'sub/made.txt'), 'utf8')).toBe('made\n');
    expect(lstatSync(join(dir, 'link')).isSymbolicLink()).toBe(true);
  });

  test('a reader sees the old or the new file, whole, and no temporary file stays', async () => {
    const [old, fresh] = ['a'.repeat(300_000), 'b'.repeat(300_000)];
    const path = fileWith(`${old}\n`);
    let isWriting = true;
    const seen = new Set<string>();
    const reading = (async () => {
      while (isWriting) {
        const text = (await read(path)).content;
        seen.add(`${text[0]}${new Set(text.trimEnd()).size}${text.length}`);
      }
    })();
    for (let index = 0; index < 20; index += 1) await write(path, index % 2 === 0 ? fresh : old);
    isWriting = false;
    await reading;
    expect([...seen].every((kind) => kind === 'a1300001' || kind === 'b1300001')).toBe(true);
    expect(readdirSync(dir)).toEqual(['file.txt']);
  });

  test('60 edits of one file at once all land', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `slot-${index}`);
    const path = fileWith(`${names.map((name) => `<${name}>`).join('\n')}\n`);
    const replies = await Promise.all(
      names.map((name) => edit(path, { command: 'str_replace', old_str: `<${name}>`, new_str: `${name} done` })),
    );
    for (const { content } of replies) expect(content).toContain('has been edited');
    expect(readFileSync(path, 'utf8')).toBe(`${names.map((name) => `${name} done`).join('\n')}\n`);
  });
});

describe('edit', () => {
  test('the diff is V0s', async () => {
    const path = join(dir, 'd.txt');
    const created = await edit(path, { command: 'create', file_text: 'hello\nworld' });
    expect(created.body.extras).toEqual({
      path,
      prev_exist: false,
      old_content: null,
      new_content: null,
      impl_source: 'oh_aci',
      diff: `--- ${path}\n+++ ${path}\n@@ -1 +1,2 @@\n-\n+hello\n+world`,
      _diff_cache: null,
    });
    const replaced = await edit(path, { command: 'str_replace', old_str: 'world', new_str: 'moon  \nsun' });
    expect(replaced.body.extras).toMatchObject({
      old_content: 'world',
      new_content: 'moon  \nsun',
      diff: `--- ${path}\n+++ ${path}\n@@ -2 +2,2 @@\n-world\n+moon\n+sun`,
    });
    const failed = await edit(path, { command: 'str_replace', old_str: 'none', new_str: 'x' });
    expect(failed.body.extras.diff).toBe('');
  });

  test('numbering, ranges and their errors', async () => {
    const path = fileWith('a\nb\nc\n');
    const head = `Here's the result of running \`cat -n\` on ${path}:\n`;
    const view = async (range?: number[]) =>
      (await read(path, { impl_source: 'oh_aci', ...(range ? { view_range: range } : {}) })).content;
    expect(await view()).toBe(`${head}     1\ta\n     2\tb\n     3\tc\n     4\t\n`);
    expect(await view([2, 3])).toBe(`${head}     2\tb\n     3\tc\n`);
    expect(await view([2, -1])).toBe(`${head}     2\tb\n     3\tc\n`);
    expect(await view([3, 9])).toBe(
      `NOTE: We only show up to 3 since there're only 3 lines in this file.\n${head}     3\tc\n`,
    );
    expect(await view([0, 2])).toBe(
      'ERROR:\nInvalid `view_range` parameter: [0, 2]. Its first element `0` should be within the range of lines of the file: [1, 3].',
    );
    expect(await view([3, 2])).toBe(
      'ERROR:\nInvalid `view_range` parameter: [3, 2]. Its second element `2` should be greater than or equal to the first element `3`.',
    );
    expect(await view([1])).toBe('ERROR:\nInvalid `view_range` parameter: [1]. It should be a list of two integers.');
  });

  test('rules about paths, in V0s words', async () => {
    const path = fileWith('x\n');
    const invalid = 'ERROR:\nInvalid `path` parameter:';
    expect(await contentOf('none.txt', { command: 'view' })).toBe(
      `${invalid} none.txt. The path should be an absolute path, starting with \`/\`.`,
    );
    const relative = path.slice(server.workingDir.length + 1);
    expect(await contentOf(relative, { command: 'view' })).toBe(
      `${invalid} ${relative}. The path should be an absolute path, starting with \`/\`. Maybe you meant ${path}?`,
    );
    expect(await contentOf(dir, { command: 'insert' })).toBe(
      `${invalid} ${dir}. The path ${dir} is a directory and only the \`view\` command can be used on directories.`,
    );
    const document = fileWith('x', 'a.docx');
    expect(await contentOf(document, { command: 'str_replace' })).toBe(
      `${invalid} ${document}. The path ${document} points to a binary file (.docx) and only the \`view\` command can be used on supported binary files.`,
    );
    expect(await contentOf(`${dir}/no/x`, { command: 'create', file_text: 'x' })).toBe(
      `ERROR:\nRan into [Errno 2] No such file or directory: '${dir}/no/x' while trying to write to ${dir}/no/x`,
    );
    expect(await contentOf('/no/such', { command: 'insert', insert_line: 'zz', new_str: 'x' })).toBe(
      "ERROR:\nInvalid insert_line value: 'zz'. Expected an integer.",
    );
    expect(await contentOf(path, { command: 'bogus' })).toContain(
      'Unrecognized command bogus. The allowed commands for the oh_editor tool are: view, create, str_replace, insert, undo_edit',
    );
    const large = fileWith('x', 'large');
    truncateSync(large, Math.round(12.3 * 1024 * 1024));
    expect(await contentOf(large, { command: 'view' })).toBe(
      `ERROR:\nFile validation failed for ${large}: File is too large (12.3MB). Maximum allowed size is 10MB.`,
    );
  });

  test('text that matches only without the blanks around it', async () => {
    const path = fileWith('alpha\nbeta\n');
    await edit(path, { command: 'str_replace', old_str: '  beta \n\n', new_str: ' gamma ' });
    expect(readFileSync(path, 'utf8')).toBe('alpha\ngamma\n');
  });

  test('an insertion after a last line without an end', async () => {
    const path = fileWith('one');
    await edit(path, { command: 'insert', insert_line: 1, new_str: 'two' });
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n');
  });

  test('every kind of edit can be undone, step by step', async () => {
    const path = fileWith('one\r\n');
    await edit(path, { command: 'insert', insert_line: 1, new_str: 'two' });
    await edit(path, { command: 'str_replace', old_str: 'one', new_str: 'ONE' });
    expect(readFileSync(path, 'utf8')).toBe('ONE\r\ntwo\r\n');
    await edit(path, { command: 'undo_edit' });
    expect(readFileSync(path, 'utf8')).toBe('one\r\ntwo\r\n');
    await edit(path, { command: 'undo_edit' });
    expect(readFileSync(path, 'utf8')).toBe('one\r\n');
    expect((await edit(path, { command: 'undo_edit' })).content).toBe(`ERROR:\nNo edit history found for ${path}.`);
    const made = join(dir, 'made');
    await edit(made, { command: 'create', file_text: 'text' });
    expect((await edit(made, { command: 'undo_edit' })).content).toContain(`Last edit to ${made} undone successfully.`);
  });

  test.each([
    ['cp1251', Buffer.from([0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2, 0x2c, 0x20, 0x6e, 0x3d, 0x31, 0x0d, 0x0a])],
    ['utf-16le with a mark', Buffer.from('\ufeffn=1 caf\u00e9\r\n', 'utf16le')],
    ['utf-8 with a mark', Buffer.from('\ufeffn=1\n')],
    ['bytes of no encoding', Buffer.from([0x6e, 0x3d, 0x31, 0x81, 0x8d, 0xff, 0x0a])],
  ])('%s stays so', async (_name, bytes) => {
    const path = fileWith(bytes);
    const { content } = await edit(path, { command: 'str_replace', old_str: 'n=1', new_str: 'n=2' });
    expect(content).toContain('has been edited');
    const unit = bytes.includes(0) ? 'utf16le' : 'latin1';
    const expected = Buffer.from(bytes.toString(unit).replace('n=1', 'n=2'), unit);
    expect(readFileSync(path)).toEqual(expected);
  });

  test('text that an encoding cannot hold is refused', async () => {
    const bytes = Buffer.from('# coding: cp1251\nname="\xcf\xf0\xe8"\n', 'latin1');
    const path = fileWith(bytes);
    const { content } = await edit(path, { command: 'str_replace', old_str: 'name', new_str: '名' });
    expect(content).toContain('ERROR:');
    expect(content).toContain('codec can');
    expect(readFileSync(path)).toEqual(bytes);
  });

  test('names with quotes, spaces and line ends reach no shell', async () => {
    const evil = join(dir, `a'; touch pwned; "b\n$(touch pwned)`);
    mkdirSync(evil);
    writeFileSync(join(evil, 'in side'), '');
    const { content } = await edit(evil, { command: 'view' });
    expect(content).toContain(`${evil}/in side`);
    expect(existsSync('pwned') || existsSync(join(dir, 'pwned'))).toBe(false);
  });
});
