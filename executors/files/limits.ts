const MIB = 1024 * 1024;

/** Longest text that `read` answers, in bytes; it travels as one JSON string. */
export const MAX_READ_BYTES = 16 * MIB;

/** Largest image, PDF or video that `read` answers as a data URL, in bytes. */
export const MAX_MEDIA_BYTES = 32 * MIB;

/** Largest file of the kernel that is served over HTTP, in bytes; they are read whole, because they report no size. */
export const MAX_KERNEL_FILE_BYTES = 16 * MIB;

/** How far `read` looks for the lines it was asked for, in bytes. */
export const MAX_SCAN_BYTES = 4096 * MIB;

/** Largest file of which `write` can replace a range of lines, in bytes. */
export const MAX_RANGE_WRITE_BYTES = 64 * MIB;

/** Largest file of the editor, in bytes (V0 §7.5). */
export const MAX_EDIT_BYTES = 10 * MIB;

/** Edits of one file that can be undone (V0 §7.5), and what they may take in memory, in bytes: for one file, and for all. */
export const MAX_UNDO_STEPS = 10;
export const MAX_UNDO_FILE_BYTES = 24 * MIB;
export const MAX_UNDO_TOTAL_BYTES = 48 * MIB;

/** Longest snippet of the editor, in code points (V0 §7.5). */
export const MAX_SNIPPET_CODE_POINTS = 16_000;

/** Entries that the editor's view of a directory looks at. */
export const MAX_VIEW_ENTRIES = 100_000;

/** Bytes that tell whether a file is text (V0 §7.2). */
export const SNIFF_BYTES = 1024;
