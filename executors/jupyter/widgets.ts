import { isObject, type JsonObject, type KernelMessage, textOf } from './messages.ts';

/** Widgets of one kernel whose state is known; older ones are forgotten. */
const MAX_WIDGETS = 2000;
const MAX_TEXT_CHARS = 4096;
/** Widgets inside of each other. */
const MAX_DEPTH = 8;
/** Widgets in the text of one: some are in others many times. */
const MAX_PARTS = 1000;
const BAR_CELLS = 10;
const MODEL_REFERENCE = 'IPY_MODEL_';
const VIEW_TYPE = 'application/vnd.jupyter.widget-view+json';

/** What is kept of a widget: enough for the text of progress bars and of whatever holds or describes a value. */
interface Widget {
  model: string;
  children: readonly string[];
  value: string | number | undefined;
  min: number;
  max: number;
  description: string;
  isClosed: boolean;
}

/** The state of a kernel's widgets, as their messages tell it, in words: a notebook shows them, their own text never changes. */
export class Widgets {
  readonly #widgets = new Map<string, Widget>();

  /** @returns whether the message was one about widgets */
  take({ type, content }: KernelMessage): boolean {
    if (!type.startsWith('comm_')) return false;
    const id = textOf(content['comm_id']);
    const data = isObject(content['data']) ? content['data'] : {};
    const state = isObject(data['state']) ? data['state'] : {};
    if (type === 'comm_open' && content['target_name'] === 'jupyter.widget') this.#open(id);
    const widget = this.#widgets.get(id);
    if (widget) update(widget, state);
    if (widget && type === 'comm_close') widget.isClosed = true;
    return true;
  }

  /** Whether the bundle is of a widget that was closed: a notebook does not show it any more. */
  isClosed(bundle: JsonObject): boolean {
    return this.#widgets.get(idOf(bundle))?.isClosed === true;
  }

  /** The text of a displayed widget; undefined when the bundle is of none, or of one that has no text. */
  textOf(bundle: JsonObject): string | undefined {
    const id = idOf(bundle);
    const text = id === '' ? '' : this.#text(id, 0, { left: MAX_PARTS }).trim();
    return text === '' ? undefined : text;
  }

  #open(id: string): void {
    this.#widgets.set(id, {
      model: '',
      children: [],
      value: undefined,
      min: 0,
      max: 100,
      description: '',
      isClosed: false,
    });
    if (this.#widgets.size <= MAX_WIDGETS) return;
    const [oldest = ''] = this.#widgets.keys();
    this.#widgets.delete(oldest);
  }

  /** @param parts how many more are looked at */
  #text(id: string, depth: number, parts: { left: number }): string {
    const widget = this.#widgets.get(id);
    if (!widget || widget.isClosed || depth > MAX_DEPTH || parts.left <= 0) return '';
    parts.left -= 1;
    const { model, children, value, description } = widget;
    if (children.length > 0)
      return children.map((child) => this.#text(child, depth + 1, parts)).join(model === 'VBoxModel' ? '\n' : '');
    if (model.endsWith('ProgressModel')) return `${description}${bar(widget)}`;
    if (model.startsWith('HTML')) return withoutMarkup(String(value ?? ''));
    return model === 'LabelModel' ? String(value ?? '') : '';
  }
}

function idOf(bundle: JsonObject): string {
  const view = bundle[VIEW_TYPE];
  return isObject(view) ? textOf(view['model_id']) : '';
}

function update(widget: Widget, state: JsonObject): void {
  const { children, value } = state;
  if (typeof state['_model_name'] === 'string') widget.model = state['_model_name'];
  if (Array.isArray(children)) widget.children = children.map((child) => textOf(child).replace(MODEL_REFERENCE, ''));
  if (typeof value === 'string') widget.value = value.slice(0, MAX_TEXT_CHARS);
  if (typeof value === 'number') widget.value = value;
  if (typeof state['min'] === 'number') widget.min = state['min'];
  if (typeof state['max'] === 'number') widget.max = state['max'];
  if (typeof state['description'] === 'string') widget.description = state['description'].slice(0, MAX_TEXT_CHARS);
}

function bar({ value, min, max }: Widget): string {
  const share = max > min ? (Number(value ?? min) - min) / (max - min) : 1;
  const cells = Math.round(Math.min(1, Math.max(0, share)) * BAR_CELLS);
  return `|${'█'.repeat(cells)}${' '.repeat(BAR_CELLS - cells)}|`;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", nbsp: ' ' };

function withoutMarkup(html: string): string {
  return html
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => ENTITIES[name] ?? '');
}
