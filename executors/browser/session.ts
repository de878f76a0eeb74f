import type { BrowserContext, Dialog } from 'playwright-core';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { BrowserProcess } from './browser-process.ts';
import { Downloads } from './downloads.ts';
import {
  CLOSE_LIMIT_MS,
  LAUNCH_LIMIT_MS,
  MAX_CONSOLE_CHARS,
  MAX_CONSOLE_LINES,
  MAX_NOTE_CHARS,
  MAX_NOTES,
} from './limits.ts';
import { watchStarvation } from './starvation.ts';
import type { Tab } from './tab.ts';
import { Tabs } from './tabs.ts';
import { ifWithin, within } from './within.ts';

export interface SessionOptions {
  readonly access: FileAccess;
  readonly workingDir: string;
  readonly ignoreCertificates: boolean;
}

/** V0's (V0 §8.1). */
const VIEWPORT = { width: 1280, height: 720 } as const;

/** What moves with a session from one browser to another. */
export type StoredState = Awaited<ReturnType<BrowserContext['storageState']>>;

/** A context of its own in a browser: cookies, storage, tabs, downloads. */
export class BrowserSession {
  readonly name: string;
  readonly process: BrowserProcess;
  readonly created = new Date();
  readonly downloads: Downloads;
  /** Aborts when the session is closed, or its browser ends. */
  readonly ended: AbortSignal;
  readonly #ending = new AbortController();
  lastUsed = new Date();
  isBusy = false;
  readonly #context: BrowserContext;
  #tabs: Tabs | undefined;
  /** Each with how often it came. */
  readonly #notes = new Map<string, number>();
  #lines = 0;
  #emit: ((text: string) => void) | undefined;
  #isClosed = false;

  private constructor(name: string, process: BrowserProcess, context: BrowserContext, options: SessionOptions) {
    this.name = name;
    this.process = process;
    this.#context = context;
    this.ended = this.#ending.signal;
    // A browser outlives many sessions.
    const stopListening = process.onEnd(() => this.#ending.abort());
    this.ended.addEventListener('abort', stopListening, { once: true });
    this.downloads = new Downloads({
      ...options,
      onLine: (text) => this.#tell(text),
      owns: (frameId) => this.tabs.owns(frameId),
    });
  }

  /** @throws when the browser does not make one in time */
  static async open(
    name: string,
    process: BrowserProcess,
    options: SessionOptions,
    storageState?: StoredState,
  ): Promise<BrowserSession> {
    const context = await within(
      LAUNCH_LIMIT_MS,
      process.browser.newContext({
        viewport: VIEWPORT,
        ignoreHTTPSErrors: options.ignoreCertificates,
        ...(storageState === undefined ? {} : { storageState }),
      }),
    );
    const session = new BrowserSession(name, process, context, options);
    try {
      await within(LAUNCH_LIMIT_MS, session.#start());
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  get tabs(): Tabs {
    if (!this.#tabs) throw new Error('The session has not been started.');
    return this.#tabs;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether its browser has ended, or it was closed. */
  get isOver(): boolean {
    return this.#isClosed || this.process.isEnded;
  }

  /** Lines of pages go there for as long as an action runs. */
  set emit(emit: ((text: string) => void) | undefined) {
    this.#emit = emit;
    this.#lines = 0;
  }

  /** Tells the agent something with the next observation. */
  note(text: string): void {
    const line = oneLine(text, MAX_NOTE_CHARS);
    const count = this.#notes.get(line) ?? 0;
    if (count > 0 || this.#notes.size < MAX_NOTES) this.#notes.set(line, count + 1);
  }

  takeNotes(): string[] {
    const notes = Array.from(this.#notes, ([line, count]) => (count > 1 ? `${line} (${count} times)` : line));
    this.#notes.clear();
    return notes;
  }

  storedState(): Promise<StoredState> {
    return this.#context.storageState();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#ending.abort();
    this.downloads.stop();
    this.#tabs?.stop();
    if (!this.process.isEnded) await ifWithin(CLOSE_LIMIT_MS, this.#context.close());
  }

  async #start(): Promise<void> {
    const { cdp, pid } = this.process;
    this.#tabs = await Tabs.open({
      context: this.#context,
      cdp,
      watchStarvation: () => watchStarvation(pid),
      onOpen: (tab) => this.#watch(tab),
      note: (text) => this.note(text),
    });
    await this.downloads.start(cdp, (await (await this.tabs.current()).session()).browserContextId);
  }

  #watch(tab: Tab): void {
    const { page } = tab;
    tab.onInterrupt = () => this.note('A script of the page ran without end: it was stopped');
    tab.onGiveUp = () => this.note('The page raised dialogs without end: its tab is blank now');
    page.on('dialog', (dialog) => {
      tab.countDialog();
      void this.#answer(dialog, tab);
    });
    page.on('console', (message) => this.#tell(`[console.${message.type()}] ${message.text()}`));
    page.on('pageerror', (error) => this.#tell(`[page error] ${error.message}`));
    page.once('crash', () => this.note('The page crashed: its tab is blank now'));
  }

  /** As a person does who wants to go on: yes, with what the page proposes. */
  async #answer(dialog: Dialog, tab: Tab): Promise<void> {
    const kind = dialog.type();
    const answer = kind === 'prompt' ? `answered with ${JSON.stringify(dialog.defaultValue())}` : 'accepted';
    const text = kind === 'beforeunload' ? '' : ` ${JSON.stringify(dialog.message().slice(0, MAX_NOTE_CHARS))}`;
    this.note(`Dialog: ${kind}${text} was ${answer}`);
    const accepted = dialog.accept(kind === 'prompt' ? dialog.defaultValue() : undefined);
    await accepted.catch(() => tab.loseDialog(this.ended));
  }

  #tell(text: string): void {
    if (!this.#emit || this.#lines > MAX_CONSOLE_LINES) return;
    this.#lines += 1;
    this.#emit(
      this.#lines > MAX_CONSOLE_LINES ? '[more lines were left out]\n' : `${oneLine(text, MAX_CONSOLE_CHARS)}\n`,
    );
  }
}

function oneLine(text: string, maxChars: number): string {
  const line = text.replaceAll(/\s*\n\s*/g, ' ');
  return line.length > maxChars ? `${line.slice(0, maxChars)}…` : line;
}
