import { constants } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { createServer, connect, type Server } from 'node:net';
import path from 'node:path';
import { hasCode } from './files.ts';

/**
 * A socket in a directory that takes connections for as long as its process lives, whatever ends it. Other containers that share the
 * directory see that too, while they see no process of this one.
 */
export class Beacon implements AsyncDisposable {
  readonly #file: string;
  readonly #server: Server;

  private constructor(file: string, server: Server) {
    this.#file = file;
    this.#server = server;
  }

  /** @returns undefined where the file system has no sockets, or no room for one */
  static async light(file: string): Promise<Beacon | undefined> {
    const server = createServer((socket) => socket.destroy());
    try {
      await byShortPath(file, (short) => {
        return new Promise<void>((resolve, reject) => {
          server.once('error', reject);
          server.listen({ path: short, readableAll: true, writableAll: true }, resolve);
        });
      });
    } catch {
      return undefined;
    }
    server.on('error', ignore);
    server.unref();
    return new Beacon(file, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await rm(this.#file, { force: true });
  }
}

/** Whether the process that has lit this beacon lives; one that is paused does. */
export async function isLit(file: string): Promise<boolean> {
  try {
    await byShortPath(file, (short) => {
      return new Promise<void>((resolve, reject) => {
        const socket = connect(short, () => {
          socket.destroy();
          resolve();
        });
        socket.once('error', reject);
      });
    });
    return true;
  } catch (error) {
    // Many ask, and it is paused.
    return hasCode(error, 'EAGAIN');
  }
}

/** Addresses of sockets may have 107 bytes only. */
async function byShortPath<T>(file: string, use: (short: string) => Promise<T>): Promise<T> {
  const directory = await open(path.dirname(file), constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return await use(`/proc/self/fd/${directory.fd}/${path.basename(file)}`);
  } finally {
    await directory.close();
  }
}

function ignore(): void {
  // It has said that it lives.
}
