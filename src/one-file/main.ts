// Entry of the one-file executable: what the image lacks is taken out of the file, then the daemon starts as everywhere.

import { runUnderInit } from './init.ts';

if (process.pid === 1) runUnderInit();
// Not earlier: as PID 1 nothing of the daemon is wanted.
void import('../main.ts');
