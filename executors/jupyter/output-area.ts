import { type JsonObject, isObject, textOf } from './messages.ts';
import { StreamText, withoutEscapes } from './stream-text.ts';
import type { Widgets } from './widgets.ts';

/** An output as nbformat 4 has it, for the top level of the answer. */
export type NotebookOutput = Readonly<Record<string, unknown>>;

interface StreamItem {
  readonly kind: 'stream';
  /** Whether outputs in front of it were left out. */
  isBehindGap: boolean;
  readonly name: string;
  readonly text: StreamText;
  /** What was written, in characters. */
  chars: number;
}

interface DisplayItem {
  readonly kind: 'display' | 'error';
  isBehindGap: boolean;
  readonly displayId: string;
  output: NotebookOutput;
  text: string;
  readonly chars: number;
}

type Item = StreamItem | DisplayItem;

/** Text kept at the beginning and at the end of one stream, in characters; the answer shows less. */
const STREAM_HEAD_CHARS = 120_000;
const STREAM_TAIL_CHARS = 120_000;
/** Outputs of one cell, and characters of all its streams: beyond this, outputs in the middle are left out. */
const MAX_ITEMS = 1000;
const MAX_STREAM_CHARS = 2_000_000;
/** MIME bundles of one cell, in characters; images are base64. */
const MAX_BUNDLE_CHARS = 32 * 1024 * 1024;

const LEFT_OUT_TEXT_CHARS = 2000;

const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
/** What an agent can read, the best first. */
const TEXT_TYPES = ['text/plain', 'text/markdown', 'text/latex', 'application/json', 'text/html'] as const;

/** What is below one cell of a notebook: outputs appear, are updated and cleared. Its size is bounded. */
export class OutputArea {
  #items: Item[] = [];
  #isClearPending = false;
  #bundleChars = 0;

  #streamChars = 0;

  stream(name: string, text: string): void {
    this.#clearIfPending();
    let last = this.#items.at(-1);
    if (last?.kind !== 'stream' || last.name !== name) {
      last = {
        kind: 'stream',
        isBehindGap: false,
        name,
        text: new StreamText(STREAM_HEAD_CHARS, STREAM_TAIL_CHARS),
        chars: 0,
      };
      this.#push(last);
    }
    const grown = Math.min(text.length, Math.max(0, STREAM_HEAD_CHARS + STREAM_TAIL_CHARS - last.chars));
    last.chars += grown;
    this.#streamChars += grown;
    last.text.write(text);
  }

  /** @returns the output's text, for those who follow live */
  display(outputType: 'display_data' | 'execute_result', content: JsonObject): string {
    this.#clearIfPending();
    const item = displayItem(outputType, content);
    this.#add(item);
    return item.text;
  }

  /** Changes what is shown under that id; what is not shown here yet, as from an earlier cell, is added. */
  update(content: JsonObject): void {
    const item = displayItem('display_data', content);
    const at = this.#items.findIndex((other) => other.kind !== 'stream' && other.displayId === item.displayId);
    const old = this.#items[at];
    if (item.displayId === '' || old === undefined || old.kind === 'stream') {
      this.#clearIfPending();
      this.#add(item);
      return;
    }
    this.#bundleChars += item.chars - old.chars;
    this.#items[at] = item;
  }

  error(content: JsonObject): string {
    this.#clearIfPending();
    const traceback = Array.isArray(content['traceback']) ? content['traceback'].map(textOf) : [];
    const name = textOf(content['ename']);
    const value = textOf(content['evalue']);
    const text = withoutEscapes(traceback.length > 0 ? traceback.join('\n') : `${name}: ${value}`);
    const output = { output_type: 'error', ename: name, evalue: withoutEscapes(value), traceback: text.split('\n') };
    this.#add({ kind: 'error', isBehindGap: false, displayId: '', output, text, chars: text.length });
    return text;
  }

  /** @param wait whether the next output clears, so that nothing flickers */
  clear(wait: boolean): void {
    if (wait) this.#isClearPending = true;
    else this.#clear();
  }

  /** Shows widgets as they are now, and no longer those that are closed. */
  settleWidgets(widgets: Pick<Widgets, 'isClosed' | 'textOf'>): void {
    this.#items = this.#items.filter(
      ({ kind, ...item }) =>
        kind !== 'display' ||
        !('output' in item) ||
        !isObject(item.output['data']) ||
        !widgets.isClosed(item.output['data']),
    );
    for (const item of this.#items) {
      if (item.kind !== 'display' || !isObject(item.output['data'])) continue;
      const text = widgets.textOf(item.output['data']);
      if (text === undefined) continue;
      item.text = text;
      item.output = { ...item.output, data: { ...item.output['data'], 'text/plain': text } };
    }
  }

  /** The text in order, in two parts when something between them is missing; images as data URLs; the bundles. */
  finish(): { head: string; tail: string; isWhole: boolean; images: string[]; outputs: NotebookOutput[] } {
    let head: string | undefined;
    let text = '';
    const gap = (): void => {
      head ??= text;
      text = '';
    };
    for (const [index, item] of this.#items.entries()) {
      if (item.isBehindGap) gap();
      const part = item.kind === 'stream' ? item.text.finish() : { head: item.text, tail: '', dropped: 0 };
      text += separator(text, this.#items[index - 1], part.head) + part.head;
      if (part.dropped === 0) continue;
      gap();
      text = part.tail;
    }
    const outputs = this.#items.map(notebookOutput);
    const isWhole = head === undefined;
    return { head: head ?? text, tail: isWhole ? '' : text, isWhole, images: this.#images(), outputs };
  }

  #images(): string[] {
    return this.#items.flatMap(({ kind, ...item }) => {
      if (kind === 'stream' || !('output' in item) || !isObject(item.output['data'])) return [];
      const { data } = item.output;
      const type = IMAGE_TYPES.find((name) => typeof data[name] === 'string');
      return type === undefined ? [] : [`data:${type};base64,${textOf(data[type]).replaceAll(/\s/g, '')}`];
    });
  }

  #add(item: DisplayItem): void {
    const kept = this.#bundleChars + item.chars > MAX_BUNDLE_CHARS ? withoutBundle(item) : item;
    this.#bundleChars += kept.chars;
    this.#push(kept);
  }

  #push(item: Item): void {
    this.#items.push(item);
    while (this.#items.length > MAX_ITEMS || (this.#streamChars > MAX_STREAM_CHARS && this.#items.length > 2)) {
      const middle = this.#items.length >> 1;
      const [gone] = this.#items.splice(middle, 1);
      const next = this.#items[middle];
      if (next) next.isBehindGap = true;
      if (gone?.kind === 'stream') this.#streamChars -= gone.chars;
      else this.#bundleChars -= gone?.chars ?? 0;
    }
  }

  #clearIfPending(): void {
    if (this.#isClearPending) this.#clear();
  }

  #clear(): void {
    this.#isClearPending = false;
    this.#items = [];
    this.#bundleChars = 0;
    this.#streamChars = 0;
  }
}

/**
 * Texts follow each other without anything between (V0 §6.2); only what was displayed ends its line, so that a table's last number does not
 * run into what comes next.
 */
function separator(before: string, previous: Item | undefined, text: string): string {
  return previous?.kind === 'display' && before !== '' && !before.endsWith('\n') && text !== '' ? '\n' : '';
}

function displayItem(outputType: 'display_data' | 'execute_result', content: JsonObject): DisplayItem {
  const data = isObject(content['data']) ? content['data'] : {};
  const metadata = isObject(content['metadata']) ? content['metadata'] : {};
  const transient = isObject(content['transient']) ? content['transient'] : {};
  const output = { output_type: outputType, data, metadata };
  return {
    kind: 'display',
    isBehindGap: false,
    displayId: textOf(transient['display_id']),
    output,
    text: displayText(data),
    chars: bundleChars(data),
  };
}

/** What stands for an output that is too large to be kept beside the others. */
function withoutBundle({ kind, displayId, output, text, chars }: DisplayItem): DisplayItem {
  const types = isObject(output['data']) ? Object.keys(output['data']).join(', ') : textOf(output['output_type']);
  const note = `${text.slice(0, LEFT_OUT_TEXT_CHARS)}\n[${types}: ${chars} characters left out, the cell has shown too much]`;
  const data = { 'text/plain': note };
  return {
    kind,
    isBehindGap: false,
    displayId,
    output: { output_type: 'display_data', data, metadata: {} },
    text: note,
    chars: note.length,
  };
}

function displayText(data: JsonObject): string {
  const type = TEXT_TYPES.find((name) => data[name] !== undefined);
  if (type !== undefined) {
    const value = data[type];
    return withoutEscapes(typeof value === 'string' ? value : JSON.stringify(value));
  }
  if (IMAGE_TYPES.some((name) => data[name] !== undefined)) return '';
  const names = Object.keys(data);
  return names.length === 0 ? '' : `[${names.join(', ')}]`;
}

function bundleChars(data: JsonObject): number {
  return Object.values(data).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? value.length : JSON.stringify(value ?? null).length),
    0,
  );
}

function notebookOutput(item: Item): NotebookOutput {
  if (item.kind !== 'stream') return item.output;
  const { head, tail, dropped } = item.text.finish();
  const text = dropped > 0 ? `${head}\n[... ${dropped} characters left out ...]\n${tail}` : head;
  return { output_type: 'stream', name: item.name, text };
}
