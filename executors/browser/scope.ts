import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { Downloads } from './downloads.ts';
import type { Tab } from './tab.ts';
import type { Tabs } from './tabs.ts';
import type { Deadline } from './within.ts';

/** What a call is carried out on. */
export interface Scope {
  readonly tabs: Tabs;
  /** The active tab when the call begins. */
  readonly tab: Tab;
  readonly downloads: Downloads;
  readonly deadline: Deadline;
  /** Whose rights count for files to upload. */
  readonly access: FileAccess;
  /** Where relative paths of files to upload start. */
  readonly workingDir: string;
  /** Tells the agent something beside the page, on one line. */
  readonly note: (text: string) => void;
}
