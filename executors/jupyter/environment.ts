import { exportedVariables, isShellOwn } from '../../src/sandbox/shell-state.ts';
import type { EnvironmentChanges } from './python-side.ts';

/** Variables that Python code has set and that a successor of the kernel gets, in characters of names and values. */
const MAX_OWN_CHARS = 4_000_000;

/**
 * The variables of a session's kernels: what the shell exports, and above it what cells have set, until the shell changes that very
 * variable.
 */
export class Environment {
  readonly #base: ReadonlyMap<string, string>;
  /** What the kernel has of the shell's. */
  #applied: ReadonlyMap<string, string>;
  #appliedText: string | undefined;
  readonly #own = new Map<string, string | null>();
  #ownChars = 0;

  /** @param base what every kernel has from the start */
  constructor(base: Readonly<Record<string, string>>) {
    this.#base = new Map(Object.entries(base));
    this.#applied = this.#base;
  }

  /** A new kernel has nothing but the base. */
  forgetKernel(): void {
    this.#applied = this.#base;
    this.#appliedText = undefined;
  }

  /** Cells have changed variables. */
  remember(changes: EnvironmentChanges): void {
    for (const [name, value] of Object.entries(changes)) {
      this.#forget(name);
      const chars = charsOf(name, value);
      if (this.#ownChars + chars > MAX_OWN_CHARS) continue;
      this.#ownChars += chars;
      this.#own.set(name, value);
    }
  }

  #forget(name: string): void {
    const value = this.#own.get(name);
    if (value === undefined) return;
    this.#own.delete(name);
    this.#ownChars -= charsOf(name, value);
  }

  /**
   * What the kernel has to change now.
   * @param exports of the shell, as `declare -px` writes them; empty while there is no shell
   * @returns undefined when there is nothing
   */
  update(exports: string): EnvironmentChanges | undefined {
    if (exports === this.#appliedText) return undefined;
    const isFresh = this.#appliedText === undefined;
    const wanted = exports === '' ? this.#applied : exportedVariables(exports);
    const changes: Record<string, string | null> = {};
    for (const [name, value] of wanted) if (this.#applied.get(name) !== value) changes[name] = value;
    for (const name of this.#applied.keys()) if (!wanted.has(name) && !isShellOwn(name)) changes[name] = null;
    if (isFresh) Object.assign(changes, Object.fromEntries(this.#own));
    else for (const name of Object.keys(changes)) this.#forget(name);
    this.#applied = wanted;
    this.#appliedText = exports;
    return Object.keys(changes).length === 0 ? undefined : changes;
  }
}

function charsOf(name: string, value: string | null): number {
  return name.length + (value?.length ?? 0);
}
