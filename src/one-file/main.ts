// Entry of the one-file executable: what the image lacks is taken out of the file, then the daemon starts as everywhere.

import { runUnderInit } from './init.ts';

async function main(): Promise<void> {
  if (process.pid === 1) runUnderInit();
  // Not earlier: as PID 1 nothing of the daemon is wanted.
  await import('../main.ts');
}

main().catch((error: unknown) => {
  process.stderr.write(`actiond: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
