import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { EditAction, ReadAction, WriteAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import {
  editObservation,
  errorObservation,
  type Observation,
  readObservation,
  writeObservation,
} from '../../src/protocol/observations.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { codeOf, faultText } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { isBinary } from './binary.ts';
import { Editor, VIEWABLE_EXTENSIONS } from './editor.ts';
import { maskBeforeNotice } from './editor-texts.ts';
import type { KeyedLocks } from './locks.ts';
import { mediaTypeOf, readDataUrl, readLines } from './read.ts';
import { readHead } from './text-file.ts';
import { writeLines } from './write.ts';

export interface FilesOptions {
  readonly access: FileAccess;
  readonly locks: KeyedLocks;
  readonly workingDir: string;
  /** The directory of the default shell now, where relative paths of `read` and `write` start (V0 §7.1). */
  readonly currentDir: () => string;
}

type FileAction = ReadAction | WriteAction | EditAction;

/** Serves `read`, `write` and `edit` (V0 §7). There is no lane: changes of one file wait for each other, nothing else waits. */
export class FilesExecutor implements Executor<'read' | 'write' | 'edit'> {
  readonly name = 'files';
  readonly actionTypes = ['read', 'write', 'edit'] as const;
  readonly #options: FilesOptions;
  readonly #editor: Editor;

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#editor = new Editor(options);
  }

  laneOf(): undefined {
    return undefined;
  }

  async start(): Promise<void> {}

  async execute(action: FileAction, context: ActionContext): Promise<ActionResult> {
    return { observation: await this.#observe(action, context) };
  }

  health(): SubsystemHealth {
    return { status: 'ready' };
  }

  sessions(): SessionInfo[] {
    return [];
  }

  async closeSession(): Promise<boolean> {
    return false;
  }

  async stop(): Promise<void> {}

  #observe(action: FileAction, { signal, mask }: ActionContext): Promise<Observation> {
    switch (action.action) {
      case 'read':
        return action.args.impl_source === 'oh_aci' ? this.#view(action, mask, signal) : this.#read(action, signal);
      case 'write':
        return this.#write(action);
      case 'edit':
        return this.#edit(action, mask, signal);
    }
  }

  async #read({ args }: ReadAction, signal: AbortSignal): Promise<Observation> {
    const path = this.#resolve(args.path);
    try {
      await using pin = await this.#options.access.pin(path);
      const content = await this.#readPinned(pin, path, args, signal);
      if (content === undefined) return errorObservation(BINARY_TEXT);
      return readObservation({ path, content, implSource: 'default' });
    } catch (error) {
      return errorObservation(this.#readFault(error, path));
    }
  }

  /** undefined: a binary file. */
  async #readPinned(
    pin: Pin,
    path: string,
    { start, end }: ReadAction['args'],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { access } = this.#options;
    const type = mediaTypeOf(path);
    if (type !== undefined && pin.stats.isFile()) return readDataUrl(access, pin, path, type);
    return readLines(access, pin, path, { start, end, signal });
  }

  async #view({ args }: ReadAction, mask: ActionContext['mask'], signal: AbortSignal): Promise<Observation> {
    const { path, view_range: viewRange } = args;
    if (await this.#isUnviewable(path)) return errorObservation(BINARY_TEXT);
    const content = await this.#editor
      .view(path, viewRange, signal)
      .then(({ output }) => maskBeforeNotice(output, mask), editorFault);
    return readObservation({ path, content, implSource: 'oh_aci' });
  }

  /** V0 looks for binary files before the editor does (V0 §7.2); files that can be shown as Markdown are let through. */
  async #isUnviewable(path: string): Promise<boolean> {
    if (!path.startsWith('/') || [...VIEWABLE_EXTENSIONS].some((end) => path.toLowerCase().endsWith(end))) return false;
    const { access } = this.#options;
    try {
      await using pin = await access.pin(path);
      return pin.stats.isFile() && (await isBinary(path, await readHead(access, pin, path)));
    } catch {
      return false;
    }
  }

  async #write({ args }: WriteAction): Promise<Observation> {
    const { access, locks } = this.#options;
    const path = this.#resolve(args.path);
    try {
      await locks.run(await access.keyOf(path), () => writeLines(access, path, args));
      return writeObservation(path);
    } catch (error) {
      if (codeOf(error) === 'EISDIR')
        return errorObservation(`Path is a directory: ${path}. You can only write to files`);
      if (codeOf(error) === 'ENOENT') return errorObservation(`File not found: ${path}`);
      return errorObservation(faultText(error, path));
    }
  }

  async #edit({ args }: EditAction, mask: ActionContext['mask'], signal: AbortSignal): Promise<Observation> {
    const { path, old_str: oldStr, new_str: newStr } = args;
    if (args.impl_source === 'llm_based_edit') return errorObservation(LLM_EDIT_TEXT);
    const { output, diff } = await this.#editor
      .edit(path, args, signal)
      .catch((error: unknown) => ({ output: editorFault(error), diff: '' }));
    return editObservation({ path, content: maskBeforeNotice(output, mask), oldStr, newStr, diff });
  }

  #resolve(path: string): string {
    return path.startsWith('/') ? path : `${this.#options.currentDir()}/${path}`;
  }

  #readFault(error: unknown, path: string): string {
    switch (codeOf(error)) {
      case 'ENOENT':
        return `File not found: ${path}. Your current working directory is ${this.#options.currentDir()}.`;
      case 'EISDIR':
        return `Path is a directory: ${path}. You can only read files`;
      default:
        return faultText(error, path);
    }
  }
}

/** V0 §7.2. */
const BINARY_TEXT = 'ERROR_BINARY_FILE';

const LLM_EDIT_TEXT =
  'impl_source llm_based_edit is carried out by the client, with read and write. Use impl_source oh_aci.';

function editorFault(error: unknown): string {
  return `ERROR:\n${error instanceof Error ? error.message : String(error)}`;
}
