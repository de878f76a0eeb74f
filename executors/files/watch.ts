import type { FSWatcher } from 'chokidar';
import type { WatchEvent } from '../../src/protocol/http.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { httpError } from './serve.ts';

export interface Watch {
  /** What happens, until `close`; to be called once. */
  onEvent(listener: (event: WatchEvent) => void): void;
  close(): Promise<void>;
}

const KINDS = ['add', 'change', 'unlink', 'addDir', 'unlinkDir'] as const;

/**
 * Watches a file, or a directory with all that is below; links are not followed. `ready` comes first: what happens from then on is
 * told. A watch that the system refuses ends in `error`.
 * @throws AppError when the path cannot be read
 */
export async function watchFiles(access: FileAccess, path: string): Promise<Watch> {
  const root = await checkedPath(access, path);
  const { watch } = await import('chokidar');
  const watcher = watch(root, {
    ignoreInitial: true,
    followSymlinks: false,
    ignored: (_path, stats) => stats !== undefined && stats.isDirectory() && !access.allows(stats, 'read'),
  });
  return { onEvent: (listener) => listen(watcher, listener), close: () => watcher.close() };
}

async function checkedPath(access: FileAccess, path: string): Promise<string> {
  try {
    await using pin = await access.pin(path);
    access.require(pin, 'read', path);
    return pin.path;
  } catch (error) {
    throw httpError(error, path);
  }
}

function listen(watcher: FSWatcher, listener: (event: WatchEvent) => void): void {
  // Links are told although they were there before.
  let isReady = false;
  for (const kind of KINDS)
    watcher.on(kind, (path) => {
      if (isReady) listener({ kind, path });
    });
  watcher.on('ready', () => {
    isReady = true;
    listener({ kind: 'ready' });
  });
  watcher.on('error', (error) => {
    listener({ kind: 'error', reason: error instanceof Error ? error.message : String(error) });
  });
}
