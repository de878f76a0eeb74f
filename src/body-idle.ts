import type { IncomingMessage } from 'node:http';

/**
 * Calls `onIdle` once when nothing more of a request's body comes for `limitMs`, or up to twice as long. A body that goes on coming
 * may take any time; one that waits because we do not read it is not late.
 */
export function watchBody(request: IncomingMessage, limitMs: number, onIdle: () => void): void {
  if (!hasBody(request)) return;
  const { socket } = request;
  let seen = socket.bytesRead;
  const timer = setInterval(() => {
    const isOver = request.complete || request.destroyed;
    const isMoving = socket.bytesRead !== seen || request.readableLength > 0;
    seen = socket.bytesRead;
    if (!isOver && isMoving) return;
    clearInterval(timer);
    if (!isOver) onIdle();
  }, limitMs).unref();
  const stop = (): void => clearInterval(timer);
  request.once('end', stop).once('close', stop);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
