/** Copying in and out, the tests of V0's own suite (V0 §5.8) by their names, over HTTP as V0's client does it. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';

let server: TestServer;
let host: string;
let target: string;

beforeAll(async () => {
  server = await TestServer.start();
});

afterAll(() => server[Symbol.asyncDispose]());

beforeEach(({ task }) => {
  host = mkdtempSync(join(tmpdir(), 'actiond-host-'));
  target = join(server.workingDir, task.name);
  mkdirSync(target);
});

afterEach(() => rmSync(host, { recursive: true, force: true }));

/** A recursive copy goes as a zip whose entries begin with the directory's own name (V0 §2.5). */
async function copyTo(source: string, destination: string, recursive = false): Promise<void> {
  const file = recursive ? join(host, 'tmpabcd.zip') : source;
  if (recursive) {
    const script = "import sys,shutil; shutil.make_archive(sys.argv[1],'zip',sys.argv[2],sys.argv[3])";
    execFileSync('python3', ['-c', script, join(host, 'tmpabcd'), dirname(source), basename(source)]);
  }
  const form = new FormData();
  form.append('file', new Blob([readFileSync(file)]), basename(file));
  const query = new URLSearchParams({ destination, recursive: String(recursive) });
  const reply = await fetch(`${server.url}/upload_file?${query.toString()}`, { method: 'POST', body: form });
  expect(await reply.json()).toEqual({ filename: basename(file), destination, recursive });
  expect(reply.status).toBe(200);
}

function writeHostFile(name: string, text: string): string {
  const path = join(host, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

test('test_copy_single_file', async () => {
  await copyTo(writeHostFile('test_file.txt', 'Hello, World!'), target);
  const listed = await server.run(`ls -alh ${target}`);
  expect(listed.exitCode).toBe(0);
  expect(listed.content).toContain('test_file.txt');
  const shown = await server.run(`cat ${target}/test_file.txt`);
  expect(shown.exitCode).toBe(0);
  expect(shown.content).toContain('Hello, World!');
});

test('test_copy_directory_recursively', async () => {
  writeHostFile('test_dir/file1.txt', 'File 1 content');
  writeHostFile('test_dir/file2.txt', 'File 2 content');
  await copyTo(join(host, 'test_dir'), target, true);
  const listed = await server.run(`ls -alh ${target}`);
  expect(listed.content).toContain('test_dir');
  expect(listed.content).not.toContain('file1.txt');
  const inner = await server.run(`ls -alh ${target}/test_dir`);
  expect(inner.content).toContain('file1.txt');
  expect(inner.content).toContain('file2.txt');
  expect((await server.run(`cat ${target}/test_dir/file1.txt`)).content).toContain('File 1 content');
});

test('test_copy_to_non_existent_directory', async () => {
  await copyTo(writeHostFile('test_file.txt', 'Hello, World!'), `${target}/new_dir`);
  const shown = await server.run(`cat ${target}/new_dir/test_file.txt`);
  expect(shown.exitCode).toBe(0);
  expect(shown.content).toContain('Hello, World!');
});

test('test_overwrite_existing_file', async () => {
  expect((await server.run(`touch ${target}/test_file.txt`)).exitCode).toBe(0);
  expect((await server.run(`cat ${target}/test_file.txt`)).content).toBe('');
  await copyTo(writeHostFile('test_file.txt', 'Hello, World!'), target);
  expect((await server.run(`cat ${target}/test_file.txt`)).content).toContain('Hello, World!');
});

test('test_copy_non_existent_file', async () => {
  await expect(copyTo(join(host, 'non_existent_file.txt'), `${target}/none`)).rejects.toThrow('ENOENT');
  expect(existsSync(`${target}/none`)).toBe(false);
  const listed = await server.run(`ls ${target}/non_existent_file.txt`);
  expect(listed.exitCode).not.toBe(0);
});

test('test_copy_from_directory', async () => {
  writeFileSync(join(target, 'file1.txt'), 'File 1 content');
  writeFileSync(join(target, 'file2.txt'), 'File 2 content');
  const reply = await fetch(`${server.url}/download_files?path=${encodeURIComponent(target)}`);
  expect(reply.status).toBe(200);
  expect(reply.headers.get('content-type')).toBe('application/zip');
  expect(reply.headers.get('content-disposition')).toBe('attachment; filename="test_copy_from_directory.zip"');
  const archive = join(host, 'copied.zip');
  writeFileSync(archive, Buffer.from(await reply.arrayBuffer()));
  execFileSync('unzip', ['-q', archive, '-d', join(host, 'copied')]);
  expect(readFileSync(join(host, 'copied/file1.txt'), 'utf8')).toBe('File 1 content');
  expect(readFileSync(join(host, 'copied/file2.txt'), 'utf8')).toBe('File 2 content');
});
