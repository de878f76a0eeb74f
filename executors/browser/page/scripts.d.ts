export interface MarkRequest {
  /** Of all ids in this frame. */
  readonly prefix: string;
  /** What of the frame is to be seen, in its own coordinates; undefined: all of its viewport. */
  readonly clip?: Box | undefined;
  readonly maxElements: number;
}
/** In CSS pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}
export interface MarkReply {
  readonly url: string;
  readonly focused: string | null;
  readonly width: number;
  readonly height: number;
  readonly version: number;
  /** Ids of the set of marks. */
  readonly marks: readonly string[];
  readonly isCut: boolean;
}
/** Gives every element its id and says which ones a person would click (V0 §8.2). */
export declare function markElements({ prefix, clip, maxElements }: MarkRequest): MarkReply;
/** `busy`: loaded, and something says of itself that it is not yet what is to be seen (`aria-busy`). */
export type DocumentState = 'loading' | 'interactive' | 'busy' | 'complete';
/** Resolves when the document is further than `from`, or after `limitMs`. @returns how far it is */
export declare function waitForDocument({
  from,
  limitMs,
}: {
  readonly from: DocumentState;
  readonly limitMs: number;
}): Promise<DocumentState>;
/** How often the document has changed. */
export declare function readVersion(): number;
/** Resolves when the document has not changed for `quietMs`, or after `limitMs`. @returns whether it was quiet */
export declare function waitForQuiet({
  quietMs,
  limitMs,
}: {
  readonly quietMs: number;
  readonly limitMs: number;
}): Promise<boolean>;
/** Resolves when what was begun has been drawn: two frames, or `limitMs` where nothing is drawn. */
export declare function waitForFrames({ limitMs }: { readonly limitMs: number }): Promise<void>;
export interface FrameBox extends Box {
  /** Id of the frame's element; null when it has none. */
  readonly bid: string | null;
}
/** Called on a frame's element: its id, and where its document is drawn. */
export declare function frameBox(this: Element): FrameBox;
