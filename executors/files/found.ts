/** A file that a search found, or a line in one. */
export interface Found {
  /** Absolute. */
  readonly path: string;
  /** From 1. */
  readonly line?: number;
  readonly text?: string;
}
