/** The editor's tests of V0's own suite (V0 §7.7), by their names, with the same expectations, over HTTP. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';

let server: TestServer;
let file: string;

beforeAll(async () => {
  server = await TestServer.start();
});

afterAll(() => server[Symbol.asyncDispose]());

beforeEach(({ task }) => {
  const directory = join(server.workingDir, task.name);
  mkdirSync(directory, { recursive: true });
  file = join(directory, 'test.txt');
});

interface EditFields {
  readonly command: string;
  readonly path?: string;
  readonly file_text?: string | null;
  readonly old_str?: string | null;
  readonly new_str?: string | null;
  readonly insert_line?: number | null;
}

async function edit(fields: EditFields): Promise<string> {
  const { observation, content } = await server.action({ action: 'edit', args: { path: file, ...fields } });
  expect(observation).toBe('edit');
  return content;
}

async function write(content: string): Promise<void> {
  const { observation } = await server.action({ action: 'write', args: { path: file, content } });
  expect(observation).toBe('write');
}

const view = (): Promise<string> => edit({ command: 'view' });

test('test_view_file', async () => {
  await write('This is a test file.\nThis file is for testing purposes.');
  const content = await view();
  expect(content).toContain(`Here's the result of running \`cat -n\` on ${file}:`);
  expect(content).toContain('1\tThis is a test file.');
  expect(content).toContain('2\tThis file is for testing purposes.');
});

test('test_view_directory', async () => {
  const directory = join(server.workingDir, 'test_view_directory');
  writeFileSync(file, 'text');
  mkdirSync(join(directory, '.downloads'));
  expect(await edit({ command: 'view', path: directory })).toBe(
    `Here's the files and directories up to 2 levels deep in ${directory}, excluding hidden items:
${directory}/
${directory}/test.txt

1 hidden files/directories in this directory are excluded. You can use 'ls -la ${directory}' to see them.`,
  );
});

test('test_create_file', async () => {
  expect(await edit({ command: 'create', file_text: 'New file content' })).toContain('File created successfully');
  expect(await view()).toContain('New file content');
});

test('test_create_file_with_empty_content', async () => {
  expect(await edit({ command: 'create', file_text: '' })).toContain('File created successfully');
  expect(await view()).toContain('1\t');
});

test('test_create_with_none_file_text', async () => {
  expect(await edit({ command: 'create', file_text: null })).toBe(
    'ERROR:\nParameter `file_text` is required for command: create.',
  );
});

test('test_str_replace', async () => {
  await write('This is a test file.\nThis file is for testing purposes.');
  const content = await edit({ command: 'str_replace', old_str: 'test file', new_str: 'sample file' });
  expect(content).toContain(`The file ${file} has been edited`);
  expect(await view()).toContain('This is a sample file.');
});

test('test_str_replace_multi_line', async () => {
  await write('This is a test file.\nThis file is for testing purposes.');
  const content = await edit({
    command: 'str_replace',
    old_str: 'This is a test file.\nThis file is for testing purposes.',
    new_str: 'This is a sample file.\nThis file is for testing purposes.',
  });
  expect(content).toContain(`The file ${file} has been edited.`);
  expect(content).toContain('This is a sample file.');
  expect(content).toContain('This file is for testing purposes.');
});

test('test_str_replace_multi_line_with_tabs', async () => {
  await edit({ command: 'create', file_text: 'def test():\n\tprint("Hello, World!")' });
  const content = await edit({
    command: 'str_replace',
    old_str: 'def test():\n\tprint("Hello, World!")',
    new_str: 'def test():\n\tprint("Hello, Universe!")',
  });
  expect(content)
    .toBe(`The file ${file} has been edited. Here's the result of running \`cat -n\` on a snippet of ${file}:
     1\tdef test():
     2\t\tprint("Hello, Universe!")
Review the changes and make sure they are as expected. Edit the file again if necessary.`);
});

test('test_str_replace_error_multiple_occurrences', async () => {
  await write('This is a test file.\nThis file is for testing purposes.');
  const content = await edit({ command: 'str_replace', old_str: 'test', new_str: 'sample' });
  expect(content).toContain('Multiple occurrences of old_str `test`');
  expect(content).toContain('[1, 2]');
});

test('test_str_replace_error_multiple_multiline_occurrences', async () => {
  const block = 'def example():\n    print("Hello")\n    return True';
  await write(`${block}\n\nprint("separator")\n\n${block}`);
  const content = await edit({ command: 'str_replace', old_str: block, new_str: 'def new():\n    pass' });
  expect(content).toContain('Multiple occurrences of old_str');
  expect(content).toContain('[1, 7]');
});

test('test_str_replace_nonexistent_string', async () => {
  await write('Line 1\nLine 2');
  const content = await edit({ command: 'str_replace', old_str: 'Non-existent Line', new_str: 'New Line' });
  expect(content).toContain('No replacement was performed');
  expect(content).toContain(`old_str \`Non-existent Line\` did not appear verbatim in ${file}`);
});

test('test_str_replace_with_empty_new_str', async () => {
  await write('Line 1\nLine to remove\nLine 3');
  await edit({ command: 'str_replace', old_str: 'Line to remove\n', new_str: '' });
  const content = await view();
  expect(content).not.toContain('Line to remove');
  expect(content).toContain('Line 1');
  expect(content).toContain('Line 3');
});

test('test_str_replace_with_empty_old_str', async () => {
  await write('Line 1\nLine 2\nLine 3');
  expect(await edit({ command: 'str_replace', old_str: '', new_str: 'New string' })).toContain(
    'No replacement was performed. Multiple occurrences of old_str `` in lines [1, 2, 3, 4]. Please ensure it is unique.',
  );
});

test('test_str_replace_with_none_old_str', async () => {
  await write('Line 1\nLine 2\nLine 3');
  expect(await edit({ command: 'str_replace', old_str: null, new_str: 'new content' })).toContain('old_str');
});

test('test_insert', async () => {
  await write('Line 1\nLine 2');
  const content = await edit({ command: 'insert', insert_line: 1, new_str: 'Inserted line' });
  expect(content).toContain(`The file ${file} has been edited`);
  const seen = await view();
  for (const line of ['Line 1', 'Inserted line', 'Line 2']) expect(seen).toContain(line);
});

test('test_insert_invalid_line', async () => {
  await write('Line 1\nLine 2');
  const content = await edit({ command: 'insert', insert_line: 10, new_str: 'Invalid Insert' });
  expect(content).toContain('Invalid `insert_line` parameter');
  expect(content).toContain('It should be within the range of allowed values');
});

test('test_insert_with_empty_string', async () => {
  await write('Line 1\nLine 2');
  await edit({ command: 'insert', insert_line: 1, new_str: '' });
  const content = await view();
  for (const piece of ['1\tLine 1', '2\t\n', '3\tLine 2']) expect(content).toContain(piece);
});

test('test_insert_with_none_new_str', async () => {
  await write('Line 1\nLine 2');
  const content = await edit({ command: 'insert', insert_line: 1, new_str: null });
  expect(content).toContain('ERROR');
  expect(content).toContain('Parameter `new_str` is required for command: insert');
});

test('test_undo_edit', async () => {
  await write('This is a test file.\nThis file is for testing purposes.');
  expect(await edit({ command: 'str_replace', old_str: 'test file', new_str: 'sample file' })).toContain(
    'This is a sample file.',
  );
  const undone = await edit({ command: 'undo_edit' });
  expect(undone).toContain('Last edit to');
  expect(undone).toContain('This is a test file.');
  expect(await view()).toContain('This is a test file.');
});

test('test_validate_path_invalid', async () => {
  const content = await edit({ command: 'view', path: `${file}.none` });
  expect(content).toContain('Invalid `path` parameter');
  expect(content).toContain(`The path ${file}.none does not exist`);
});

test('test_create_existing_file_error', async () => {
  await write('Line 1\nLine 2');
  expect(await edit({ command: 'create', file_text: 'New content' })).toContain('File already exists');
});

test('test_str_replace_missing_old_str', async () => {
  await write('Line 1\nLine 2');
  expect(await edit({ command: 'str_replace', old_str: '', new_str: 'sample' })).toContain(
    'No replacement was performed. Multiple occurrences of old_str ``',
  );
});

test('test_str_replace_new_str_and_old_str_same', async () => {
  await write('Line 1\nLine 2');
  expect(await edit({ command: 'str_replace', old_str: 'test file', new_str: 'test file' })).toContain(
    'No replacement was performed. `new_str` and `old_str` must be different.',
  );
});

test('test_insert_missing_line_param', async () => {
  await write('Line 1\nLine 2');
  expect(await edit({ command: 'insert', new_str: 'Missing insert line' })).toContain(
    'Parameter `insert_line` is required for command: insert',
  );
});

test('test_undo_edit_no_history_error', async () => {
  await write('Line 1\nLine 2');
  expect(await edit({ command: 'undo_edit' })).toContain('No edit history found for');
});

test('test_view_large_file_with_truncation', async () => {
  await write(Array.from({ length: 16_000 }, (_, index) => `Line ${index + 1}`).join('\n'));
  expect(await view()).toContain('Due to the max output limit, only part of this file has been shown to you.');
});

describe('test_insert_line_string_conversion', () => {
  test('a numeric string is a line', async () => {
    writeFileSync(file, 'Line 1\nLine 2\n');
    const { content } = await server.action({
      action: 'edit',
      args: { path: file, command: 'insert', insert_line: ' 1 ', new_str: 'between' },
    });
    expect(content).toContain('has been edited');
    expect(readFileSync(file, 'utf8')).toBe('Line 1\nbetween\nLine 2\n');
  });

  test('other text is answered', async () => {
    const { content } = await server.action({
      action: 'edit',
      args: { path: file, command: 'insert', insert_line: 'zz', new_str: 'x' },
    });
    expect(content).toContain('insert_line');
  });
});
