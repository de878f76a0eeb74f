/** Everything that a page or an agent could make grow, and every wait, with its bound. Times are in milliseconds. */

/** One action, when it brings no shorter limit (V0 §8.1 waits 120 s for its browser). */
export const ACTION_LIMIT_MS = 110_000;
/** Kept back from an action's own limit for telling what the page looks like. */
export const OBSERVATION_RESERVE_MS = 6000;
/** For telling what the page looks like when the action was cancelled. */
export const LAST_LOOK_MS = 3000;
/** From the request to the first byte of a page. */
export const NAVIGATION_LIMIT_MS = 30_000;
/** A click, a fill and the like: until the element can be used. V0 has 500 ms, which a busy machine misses. */
export const ELEMENT_LIMIT_MS = 4000;
/** Until an element is found or not: one look into the page and the frames on the way. */
export const LOOKUP_LIMIT_MS = 8000;
/** After an action: until the document is parsed, and then until its load event. */
export const PARSED_LIMIT_MS = 8000;
export const LOAD_LIMIT_MS = 3000;
/** For what says that it is busy. */
export const BUSY_LIMIT_MS = 8000;
/** After that: until requests have ended and the document no longer changes. */
export const QUIET_LIMIT_MS = 2500;
/** For a page to answer at all before its script is taken for one that does not end. */
export const ANSWER_LIMIT_MS = 4000;
/** For the picture, when everything else of a page is there. */
export const PICTURE_LIMIT_MS = 5000;
/** One look at a page, all its parts; a part that is not there by then is left out. */
export const OBSERVE_LIMIT_MS = 15_000;
/** A frame that does not answer within this is left out. */
export const FRAME_LIMIT_MS = 2000;
/** A download that goes on longer is reported by a later action. */
export const DOWNLOAD_LIMIT_MS = 60_000;
/** For the browser to begin a download that aborted a navigation. */
export const DOWNLOAD_BEGIN_LIMIT_MS = 1000;
/** For tabs that a page has opened to be there. */
export const OPEN_LIMIT_MS = 5000;
/** For the browser itself to answer, before it is given up. */
export const PROBE_LIMIT_MS = 5000;
export const LAUNCH_LIMIT_MS = 30_000;
export const CLOSE_LIMIT_MS = 1500;
/** `noop`. */
export const MAX_NOOP_MS = 60_000;

/** Of `browser_actions`, in UTF-16 units. */
export const MAX_ACTION_CHARS = 256 * 1024;
export const MAX_CALLS = 100;
/** Lists inside lists in an argument. */
export const MAX_LITERAL_DEPTH = 32;

/** Tabs of one session; a page that opens more has them closed at once. */
export const MAX_TABS = 32;
/** Frames of one page that are looked into. */
export const MAX_FRAMES = 200;
/** Of the accessibility tree or the text of a page. */
export const MAX_CONTENT_CHARS = 16 * 1024 * 1024;
/** One message of the browser: its largest is the accessibility tree of a huge page. */
export const MAX_MESSAGE_BYTES = 400 * 1024 * 1024;
/** Dialogs of a page that is about to be left; one that raises so many is given up with its tab. */
export const MAX_DIALOGS = 20;
/** Different notes to the agent in one observation, and the length of each. */
export const MAX_NOTES = 20;
export const MAX_NOTE_CHARS = 500;
/** Lines of a page's console for one action; the length of each. */
export const MAX_CONSOLE_LINES = 500;
export const MAX_CONSOLE_CHARS = 2000;
/** What the browser itself says; only its end is kept. */
export const MAX_STDERR_CHARS = 8192;
/** One download; a larger one is cancelled. */
export const MAX_DOWNLOAD_BYTES = 4 * 1024 ** 3;
/** Downloads of one session that run at a time; more are cancelled. */
export const MAX_DOWNLOADS = 16;
/** Files of one session that have arrived between two actions: a page can go on for ever. */
export const MAX_UNSEEN_DOWNLOADS = 100;
/** Pictures kept in `.browser_screenshots`. */
export const MAX_SCREENSHOTS = 100;
/** Chromium makes a socket `org.chromium.Chromium.XXXXXX/SingletonSocket` in the directory, and ends where its path has over 107 bytes. */
export const MAX_TEMPORARY_DIR_BYTES = 60;
