import { StringDecoder } from 'node:string_decoder';
import type { SecretByteStream, SecretStream } from '../../src/sandbox/secret-stream.ts';
import { MAX_SHOWN_BEGINNING_CHARS, type Secrets } from '../../src/sandbox/secrets.ts';
import { Screen } from './screen.ts';
import { Spill, type SpillOptions } from '../../src/sandbox/spill.ts';

/** V0 §5.1: a terminal of 1000 columns and 1000 rows with 10,000 lines above it. */
export const COLUMNS = 1000;
export const ROWS = 1000;
const HISTORY_LINES = 10_000;
/** Live output is cut into pieces of at most this many characters. */
const MAX_EMIT_CHARS = 16_384;

/** Live output of the time between two actions, in characters; of more only the end is kept. */
const MAX_HELD_CHARS = 262_144;

/** Output that has not been reported before. */
export interface OutputPart {
  readonly text: string;
  /** Lines that went out of the history before anybody saw them. */
  readonly droppedLines: number;
  readonly keptLines: number;
}

export interface OutputFile {
  readonly path: string;
  readonly bytes: number;
  readonly isWhole: boolean;
}

/** Everything a session's terminal shows, without secrets: rendered for reports, raw for the file, live for whoever listens. */
export class Output {
  readonly #screen = new Screen({ columns: COLUMNS, rows: ROWS, historyLines: HISTORY_LINES });
  readonly #spillOptions: SpillOptions;
  readonly #secrets: Secrets;
  readonly #flow: { readonly pause: () => void; readonly resume: () => void };
  #spill: Spill | undefined;
  #emit: ((text: string) => void) | undefined;
  /** What came while no action was there to have it; undefined when nothing is to be kept. */
  #held: string | undefined;
  #decoder = new StringDecoder('utf8');
  /** Secrets are masked where the text is still in one piece: answers and listeners change while a program runs. */
  #reportMask: SecretStream;
  #liveMask: SecretStream;
  #fileMask: SecretByteStream;
  #lastOutputAt = 0;
  #isUnseen = false;
  /** Lines, counted from the start of the command, that reports have covered. */
  #reportedLines = 0;

  constructor(
    spill: SpillOptions,
    secrets: Secrets,
    flow: { readonly pause: () => void; readonly resume: () => void },
  ) {
    this.#spillOptions = spill;
    this.#secrets = secrets;
    this.#reportMask = secrets.stream();
    this.#liveMask = secrets.stream();
    this.#fileMask = secrets.byteStream();
    this.#flow = flow;
  }

  /** A command begins. What background jobs printed since the last one stays and is reported with it (V0 §5.7). */
  begin(name: string, emit: ((text: string) => void) | undefined, isHidden: boolean): void {
    this.#lastOutputAt = performance.now();
    this.#decoder = new StringDecoder('utf8');
    this.#reportMask = this.#secrets.stream();
    this.#fileMask = this.#secrets.byteStream();
    if (isHidden) {
      this.#held = undefined;
      this.#liveMask = this.#secrets.stream();
    }
    this.listen(emit);
    if (isHidden) this.#closeFile();
    else this.#spill ??= new Spill(this.#spillOptions, `${name}.log`, this.#flow.resume);
  }

  /** An action waits for the command: live output is its own, and so is what came since the one before was answered. */
  listen(emit: ((text: string) => void) | undefined): void {
    const held = this.#held;
    this.#held = undefined;
    this.#emit = emit;
    if (emit && held) this.#emitText(held, emit);
  }

  /** The action has been answered: what comes now waits for the next one. */
  release(): void {
    if (this.#emit) this.#held = '';
    this.#emit = undefined;
  }

  /**
   * The command's last report has been made.
   * @param isContinued whether its rest is reported with the next command: then the file goes on with that, while there is room
   */
  end(isContinued = false): void {
    this.#pass(this.#liveMask.end());
    this.release();
    if (!isContinued || this.#spill?.isFull) this.#closeFile();
    this.#reportedLines = 0;
    this.#screen.reset();
  }

  write(chunk: Buffer): void {
    this.#lastOutputAt = performance.now();
    this.#isUnseen = true;
    this.#screen.write(chunk);
    if (this.#spill && !this.#addToFile(this.#spill, chunk)) this.#flow.pause();
    if (this.#emit || this.#held !== undefined) this.#pass(this.#liveMask.push(this.#decoder.write(chunk)));
  }

  get file(): OutputFile | undefined {
    const spill = this.#spill;
    return spill?.path === undefined ? undefined : { path: spill.path, bytes: spill.keptBytes, isWhole: spill.isWhole };
  }

  /**
   * What is new since the last report, without the echo of `typed`; blank lines around it are not part of it.
   * @param isLast whether the command has completed; else an end that may be the beginning of a secret waits for the next report, or if it
   *   is too short for that, the rest of the secret is masked there
   */
  take(typed: string | undefined, isLast: boolean): OutputPart {
    const { text, droppedLines, keptLines } = this.#screen.take();
    const unseen = Math.max(0, droppedLines - this.#reportedLines);
    this.#reportedLines = droppedLines + keptLines;
    const fresh = this.#reportMask.push(withoutEcho(text, typed));
    const rest = isLast ? this.#reportMask.end() : this.#reportMask.giveShort(MAX_SHOWN_BEGINNING_CHARS);
    if (isLast) this.#spill?.add(this.#fileMask.end());
    return { text: trimmed(fresh + rest), droppedLines: unseen, keptLines };
  }

  /**
   * Calls `onSilence` once nothing visible has changed for `limitMs`: output that leaves the screen as it was counts as silence.
   */
  watchSilence(limitMs: number, onSilence: () => void): { stop(): void } {
    let changedAt = performance.now();
    let signature = this.#screen.signature();
    this.#isUnseen = false;
    const check = (): void => {
      if (this.#isUnseen) {
        this.#isUnseen = false;
        const now = this.#screen.signature();
        if (now !== signature) changedAt = this.#lastOutputAt;
        signature = now;
      }
      const left = changedAt + limitMs - performance.now();
      if (left <= 0) onSilence();
      else timer = setTimeout(check, Math.ceil(left));
    };
    let timer = setTimeout(check, limitMs);
    return { stop: () => clearTimeout(timer) };
  }

  /** @returns false when the file cannot keep up */
  #addToFile(spill: Spill, chunk: Buffer): boolean {
    return spill.add(spill.isFull ? chunk : this.#fileMask.push(chunk));
  }

  #closeFile(): void {
    this.#spill?.close();
    this.#spill = undefined;
  }

  #pass(text: string): void {
    if (this.#emit) this.#emitText(text, this.#emit);
    else if (this.#held !== undefined) this.#held = (this.#held + text).slice(-MAX_HELD_CHARS);
  }

  #emitText(text: string, emit: (text: string) => void): void {
    for (let at = 0; at < text.length;) {
      const end = pieceEnd(text, at);
      emit(text.slice(at, end));
      at = end;
    }
  }
}

/** The end of a piece that does not split a surrogate pair. */
function pieceEnd(text: string, from: number): number {
  const end = Math.min(text.length, from + MAX_EMIT_CHARS);
  const isPairSplit = end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
  return isPairSplit ? end - 1 : end;
}

/** The terminal echoes what is typed: that is no output of the program (V0 §5.3). */
function withoutEcho(text: string, typed: string | undefined): string {
  if (typed === undefined || typed === '') return text;
  return text.startsWith(typed) ? text.slice(typed.length) : text;
}

/** Blank lines around the text go, as does white space at its end; the first line keeps its indentation. */
function trimmed(text: string): string {
  return text.trimEnd().replace(/^(?:[ \t]*\n)+/, '');
}
