import type { SecretStream } from '../../src/sandbox/secret-stream.ts';
import type { Secrets } from '../../src/sandbox/secrets.ts';
import { Spill, type SpillOptions } from '../../src/sandbox/spill.ts';
import { TRUNCATION_NOTICE } from '../../src/protocol/observations.ts';
import { isObject, type KernelMessage, textOf } from './messages.ts';
import { type NotebookOutput, OutputArea } from './output-area.ts';
import { announcedEnvironment, type EnvironmentChanges } from './python-side.ts';
import { withoutEscapes } from './stream-text.ts';
import type { Widgets } from './widgets.ts';

export interface CellRunOptions {
  readonly spill: SpillOptions;
  /** Taken out of all that is shown, before it is cut or kept anywhere. */
  readonly secrets: Secrets;
  /** Name of the file with the raw text, if one is needed. */
  readonly name: string;
  readonly emit: ((text: string) => void) | undefined;
  readonly pause: () => void;
  readonly resume: () => void;
  readonly onEnvironment: (changes: EnvironmentChanges) => void;
  readonly onInputRequest: () => void;
  /** Of the kernel, which outlive the cell that made them. */
  readonly widgets: Widgets;
}

export interface CellOutput {
  readonly text: string;
  readonly images: readonly string[];
  readonly outputs: readonly NotebookOutput[];
  readonly isCut: boolean;
  readonly file: { readonly path: string; readonly bytes: number; readonly isWhole: boolean } | undefined;
}

/** Text of an answer, in code points: beyond this its middle is left out. */
export const MAX_TEXT_CODE_POINTS = 100_000;
const PIECE_CHARS = 128 * 1024;
const HIGH_SURROGATE = /[\ud800-\udbff]/;
/** What threads of a cell print behind its end, in characters; the rest is not kept. */
const MAX_LATE_CHARS = 1024 * 1024;

/** Collects what one cell shows: for the answer, for those who follow live, and whole in a file. */
export class CellRun {
  readonly #options: CellRunOptions;
  readonly #area = new OutputArea();
  readonly #spill: Spill;
  /** A secret may be split over messages of one stream. */
  readonly #streams = new Map<string, SecretStream>();
  #isEnded = false;
  #lateChars = 0;

  constructor(options: CellRunOptions) {
    this.#options = options;
    this.#spill = new Spill(options.spill, options.name, options.resume);
  }

  readonly onMessage = (message: KernelMessage): void => {
    const { type } = message;
    if (this.#options.widgets.take(message)) return;
    const content = type === 'stream' ? message.content : this.#masked(message);
    switch (type) {
      case 'stream':
        this.#stream(textOf(content['name']), textOf(content['text']));
        return;
      case 'execute_result':
      case 'display_data':
        this.#display(type, content);
        return;
      case 'update_display_data':
        if (!this.#isEnded) this.#area.update(content);
        return;
      case 'clear_output':
        if (!this.#isEnded) this.#area.clear(content['wait'] === true);
        return;
      case 'error':
        if (!this.#isEnded) this.#tell(this.#area.error(content));
        return;
      case 'input_request':
        if (!this.#isEnded) this.#options.onInputRequest();
    }
  };

  /** What the reply brings for a notebook's pager: shown behind the rest. */
  page(content: KernelMessage['content']): void {
    this.#releaseStreams();
    this.#display('display_data', this.#options.secrets.maskValue(content));
  }

  /** What it has shown; from now on output is only passed on live. */
  finish(): CellOutput {
    this.#releaseStreams();
    this.#isEnded = true;
    this.#area.settleWidgets(this.#options.widgets);
    const { head, tail, isWhole, images, outputs } = this.#area.finish();
    const cut = cutText(head, tail, isWhole);
    this.#spill.close();
    const { path, keptBytes, isWhole: isFileWhole } = this.#spill;
    const file = path === undefined || !cut.isCut ? undefined : { path, bytes: keptBytes, isWhole: isFileWhole };
    return { text: cut.text.trimEnd(), images, outputs, isCut: cut.isCut, file };
  }

  #masked({ type, content }: KernelMessage): KernelMessage['content'] {
    if (type !== 'display_data' || announcedEnvironment(content) === undefined) this.#releaseStreams();
    else return content;
    return this.#options.secrets.maskValue(content);
  }

  /** What was held back as the possible beginning of a secret. */
  #releaseStreams(): void {
    if (this.#isEnded) return;
    for (const [name, stream] of this.#streams) this.#show(name, stream.end());
  }

  #stream(name: string, unmasked: string): void {
    let masking = this.#streams.get(name);
    if (!masking) this.#streams.set(name, (masking = this.#options.secrets.stream()));
    this.#show(name, masking.push(unmasked) + (this.#isEnded ? masking.end() : ''));
  }

  #show(name: string, text: string): void {
    if (this.#isEnded) {
      this.#late(text);
      return;
    }
    // In pieces, so that a large message is not copied whole again and again.
    for (const piece of piecesOf(text)) {
      this.#area.stream(name, piece);
      this.#tell(piece);
    }
  }

  #display(type: 'execute_result' | 'display_data', content: Readonly<Record<string, unknown>>): void {
    const environment = announcedEnvironment(content);
    if (environment) this.#options.onEnvironment(environment);
    else if (this.#isEnded) this.#late(isObject(content['data']) ? textOf(content['data']['text/plain']) : '');
    else this.#tell(`${this.#area.display(type, content)}\n`);
  }

  #tell(text: string): void {
    this.#options.emit?.(withoutEscapes(text));
    if (!this.#spill.add(Buffer.from(text, 'utf8'))) this.#options.pause();
  }

  #late(text: string): void {
    const room = MAX_LATE_CHARS - this.#lateChars;
    this.#lateChars += text.length;
    if (room > 0 && text !== '') this.#options.emit?.(withoutEscapes(text.slice(0, room)));
  }
}

/** Of at most PIECE_CHARS each; none ends within a surrogate pair, whose halves are no characters. */
function* piecesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const end = at + PIECE_CHARS;
    const isPairSplit = HIGH_SURROGATE.test(text.charAt(end - 1)) && end < text.length;
    yield text.slice(at, isPairSplit ? end - 1 : end);
    at = isPairSplit ? end - 1 : end;
  }
}

/** The text, or its beginning and its end. */
export function cutText(head: string, tail: string, isWhole: boolean): { text: string; isCut: boolean } {
  const whole = head + tail;
  if (isWhole && whole.length <= MAX_TEXT_CODE_POINTS) return { text: whole, isCut: false };
  const half = MAX_TEXT_CODE_POINTS / 2;
  if (isWhole) {
    const points = Array.from(whole);
    if (points.length <= MAX_TEXT_CODE_POINTS) return { text: whole, isCut: false };
    return { text: points.slice(0, half).join('') + TRUNCATION_NOTICE + points.slice(-half).join(''), isCut: true };
  }
  const first = Array.from(head.slice(0, 2 * half))
    .slice(0, half)
    .join('');
  const last = Array.from(tail.slice(-2 * half))
    .slice(-half)
    .join('');
  return { text: first + TRUNCATION_NOTICE + last, isCut: true };
}
