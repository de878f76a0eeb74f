import { extname } from 'node:path';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { codeOf, pythonText, SpecialFileError } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import type { EditArgs } from '../../src/protocol/actions.ts';
import { isBinary } from './binary.ts';
import { unifiedDiff } from './diff.ts';
import { viewDirectory } from './directory-view.ts';
import {
  BINARY_REASON,
  EditorError,
  failedValidation,
  invalidParameter,
  markdownOutput,
  missingParameter,
  numberedOutput,
  pythonList,
  pythonPath,
  tooLargeReason,
} from './editor-texts.ts';
import { decode, type DecodedText, encode, UnencodableError, UTF_8 } from './encoding.ts';
import { EditHistory } from './history.ts';
import { insertLines } from './insert.ts';
import { MAX_EDIT_BYTES, SNIFF_BYTES } from './limits.ts';
import { countLines, linesBetween, withPlainEnds } from './lines.ts';
import type { KeyedLocks } from './locks.ts';
import { replaceFile } from './replacement.ts';
import { replaceOnce, type TextEdit } from './str-replace.ts';
import { readBytes } from './text-file.ts';

export interface EditorResult {
  readonly output: string;
  /** Unified diff; empty when nothing changed (V0 §7.6). */
  readonly diff: string;
}

export interface EditorOptions {
  readonly access: FileAccess;
  readonly locks: KeyedLocks;
  /** Where a relative path may have been meant to start. */
  readonly workingDir: string;
}

type EditCommand = Pick<EditArgs, 'command' | 'file_text' | 'old_str' | 'new_str' | 'insert_line'>;

/** Shown as Markdown (V0 §7.5). */
export const VIEWABLE_EXTENSIONS: ReadonlySet<string> = new Set(
  ['docx', 'xlsx', 'pptx', 'pdf', 'mp3', 'wav', 'm4a', 'flac'].map((name) => `.${name}`),
);

/** The editor of V0 (openhands-aci 0.3.2, V0 §7.5) over exact bytes. */
export class Editor {
  readonly #access: FileAccess;
  readonly #locks: KeyedLocks;
  readonly #workingDir: string;
  readonly #history = new EditHistory();

  constructor({ access, locks, workingDir }: EditorOptions) {
    this.#access = access;
    this.#locks = locks;
    this.#workingDir = workingDir;
  }

  /** Views a file or directory. @throws EditorError */
  async view(givenPath: string, viewRange: readonly number[] | null, signal: AbortSignal): Promise<EditorResult> {
    const path = pythonPath(givenPath);
    await using pin = await this.#pin('view', path);
    if (!pin) throw notFound(path);
    const output = pin.stats.isDirectory()
      ? await this.#viewDirectory(pin, path, viewRange)
      : await this.#viewFile(pin, path, viewRange, signal);
    return { output, diff: '' };
  }

  /** Carries out an `edit` action. @throws EditorError */
  async edit(givenPath: string, command: EditCommand, signal: AbortSignal): Promise<EditorResult> {
    const line = command.insert_line;
    if (typeof line === 'string') throw new EditorError(`Invalid insert_line value: '${line}'. Expected an integer.`);
    if (command.command === 'view') return this.view(givenPath, null, signal);
    const path = pythonPath(givenPath);
    const key = await this.#access.keyOf(path);
    return this.#locks.run(key, async () => {
      await using pin = await this.#pin(command.command, path);
      try {
        return await this.#change(path, key, command, pin ?? undefined);
      } catch (error) {
        throw readable(error, path, 'write to');
      }
    });
  }

  #change(path: string, key: string, args: EditCommand, pin: Pin | undefined): Promise<EditorResult> {
    const { command, file_text: fileText, old_str: oldStr, new_str: newStr, insert_line: line } = args;
    switch (command) {
      case 'create':
        if (fileText === null) throw missingParameter('file_text', command);
        return this.#create(path, key, fileText);
      case 'str_replace':
        if (oldStr === null) throw missingParameter('old_str', command);
        if (oldStr === newStr)
          throw invalidParameter(
            'new_str',
            newStr,
            'No replacement was performed. `new_str` and `old_str` must be different.',
          );
        return this.#apply(path, key, pin, (text) => replaceOnce(text, oldStr, newStr ?? '', path));
      case 'insert':
        if (line === null) throw missingParameter('insert_line', command);
        if (newStr === null) throw missingParameter('new_str', command);
        return this.#apply(path, key, pin, (text) => insertLines(text, Number(line), newStr, path));
      case 'undo_edit':
        return this.#undo(path, key, pin);
      default:
        throw new EditorError(
          `Unrecognized command ${command}. The allowed commands for the oh_editor tool are: view, create, str_replace, insert, undo_edit`,
        );
    }
  }

  async #create(path: string, key: string, text: string): Promise<EditorResult> {
    const bytes = await encode(text, UTF_8);
    try {
      await replaceFile(this.#access, path, bytes, { isExclusive: true });
    } catch (error) {
      throw codeOf(error) === 'EEXIST' ? existsAlready(path) : error;
    }
    this.#history.push(key, bytes);
    return {
      output: `File created successfully at: ${path}`,
      diff: unifiedDiff(path, '', withPlainEnds(text)),
    };
  }

  async #apply(
    path: string,
    key: string,
    pin: Pin | undefined,
    change: (text: string) => TextEdit,
  ): Promise<EditorResult> {
    if (!pin) throw notFound(path);
    const bytes = await this.#readBytes(pin, path);
    const { text, encoding } = await decode(bytes);
    const edit = change(text);
    await replaceFile(this.#access, path, await encode(edit.text, encoding));
    this.#history.push(key, bytes);
    return {
      output: edit.output,
      diff: unifiedDiff(path, withPlainEnds(text), withPlainEnds(edit.text)),
    };
  }

  async #undo(path: string, key: string, pin: Pin | undefined): Promise<EditorResult> {
    if (!pin) throw notFound(path);
    const current = await this.#readText(pin, path);
    const bytes = this.#history.last(key);
    if (bytes === undefined) throw new EditorError(`No edit history found for ${path}.`);
    await replaceFile(this.#access, path, bytes);
    this.#history.pop(key);
    const text = withPlainEnds((await decode(bytes)).text);
    return {
      output: `Last edit to ${path} undone successfully. ${numberedOutput(text, path)}`,
      diff: unifiedDiff(path, withPlainEnds(current.text), text),
    };
  }

  async #viewDirectory(pin: Pin, path: string, viewRange: readonly number[] | null): Promise<string> {
    if (viewRange !== null && viewRange.length > 0)
      throw invalidParameter(
        'view_range',
        pythonList(viewRange),
        'The `view_range` parameter is not allowed when `path` points to a directory.',
      );
    try {
      return await viewDirectory(this.#access, pin, path);
    } catch (error) {
      throw readable(error, path, 'read');
    }
  }

  async #viewFile(pin: Pin, path: string, viewRange: readonly number[] | null, signal: AbortSignal): Promise<string> {
    if (VIEWABLE_EXTENSIONS.has(extname(path).toLowerCase())) return this.#viewMarkdown(pin, path, signal);
    const text = withPlainEnds((await this.#readText(pin, path)).text);
    if (viewRange === null || viewRange.length === 0) return numberedOutput(text, path);
    const { first, last, note } = checkRange(viewRange, countLines(text));
    const snippet = linesBetween(text, first, last).replace(/\n$/, '');
    return note + numberedOutput(snippet, path, first);
  }

  async #viewMarkdown(pin: Pin, path: string, signal: AbortSignal): Promise<string> {
    const bytes = await this.#readBytes(pin, path, true);
    try {
      const { toMarkdown } = await import('./markdown.ts');
      return markdownOutput(await toMarkdown(bytes, extname(path).toLowerCase(), signal), path);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new EditorError(`Error in converting file to Markdown: ${reason}. Please use Python code to read ${path}`);
    }
  }

  async #readText(pin: Pin, path: string): Promise<DecodedText> {
    return decode(await this.#readBytes(pin, path));
  }

  /** @param mayBeBinary whether the kind of content does not matter */
  async #readBytes(pin: Pin, path: string, mayBeBinary = false): Promise<Buffer> {
    if (pin.stats.isFile() && pin.stats.size > MAX_EDIT_BYTES)
      throw failedValidation(path, tooLargeReason(pin.stats.size));
    try {
      const bytes = await readBytes(this.#access, pin, path, MAX_EDIT_BYTES);
      if (!mayBeBinary && (await isBinary(path, bytes.subarray(0, SNIFF_BYTES))))
        throw failedValidation(path, BINARY_REASON);
      return bytes;
    } catch (error) {
      throw readable(error, path, 'read');
    }
  }

  /** V0's rules about paths, in V0's order. @returns null for a file that is to be created */
  async #pin(command: string, path: string): Promise<Pin | null> {
    if (!path.startsWith('/')) throw invalidParameter('path', path, await this.#relativeHint(path));
    const pin = await this.#pinExisting(path);
    try {
      if (pin === null) {
        if (command === 'create') return null;
        throw notFound(path);
      }
      if (command === 'create') throw existsAlready(path);
      if (command === 'view') return pin;
      if (pin.stats.isDirectory())
        throw invalidParameter(
          'path',
          path,
          `The path ${path} is a directory and only the \`view\` command can be used on directories.`,
        );
      if (VIEWABLE_EXTENSIONS.has(extname(path).toLowerCase()))
        throw invalidParameter(
          'path',
          path,
          `The path ${path} points to a binary file (${extname(path)}) and only the \`view\` command can be used on supported binary files.`,
        );
      return pin;
    } catch (error) {
      await pin?.close();
      throw error;
    }
  }

  async #pinExisting(path: string): Promise<Pin | null> {
    try {
      return await this.#access.pin(path);
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
      throw readable(error, path, 'read');
    }
  }

  async #relativeHint(path: string): Promise<string> {
    const hint = 'The path should be an absolute path, starting with `/`.';
    const meant = `${this.#workingDir}/${path}`;
    const pin = await this.#access.pin(meant).catch(() => undefined);
    await pin?.close();
    return pin ? `${hint} Maybe you meant ${meant}?` : hint;
  }
}

function notFound(path: string): EditorError {
  return invalidParameter('path', path, `The path ${path} does not exist. Please provide a valid path.`);
}

function existsAlready(path: string): EditorError {
  return invalidParameter(
    'path',
    path,
    `File already exists at: ${path}. Cannot overwrite files using command \`create\`.`,
  );
}

function checkRange(range: readonly number[], lines: number): { first: number; last: number; note: string } {
  const invalid = (hint: string): EditorError => invalidParameter('view_range', pythonList(range), hint);
  const [first, last] = range;
  if (range.length !== 2 || first === undefined || last === undefined)
    throw invalid('It should be a list of two integers.');
  if (first < 1 || first > lines)
    throw invalid(
      `Its first element \`${first}\` should be within the range of lines of the file: ${pythonList([1, lines])}.`,
    );
  const end = last === -1 ? lines : Math.min(last, lines);
  if (end < first)
    throw invalid(`Its second element \`${end}\` should be greater than or equal to the first element \`${first}\`.`);
  const note =
    last > lines ? `NOTE: We only show up to ${lines} since there're only ${lines} lines in this file.\n` : '';
  return { first, last: end, note };
}

/** Failed system calls in V0's words; what is ours already stays. */
function readable(error: unknown, path: string, verb: string): unknown {
  if (error instanceof EditorError) return error;
  if (error instanceof UnencodableError) {
    return new EditorError(
      `Ran into ${error.message} while trying to write to ${path}. Use only characters of that encoding, or convert the file to UTF-8 first.`,
    );
  }
  if (error instanceof SpecialFileError) return failedValidation(path, error.message);
  if (codeOf(error) === undefined) return error instanceof Error ? new EditorError(error.message) : error;
  return new EditorError(`Ran into ${pythonText(error, path)} while trying to ${verb} ${path}`);
}
