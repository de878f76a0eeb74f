import { pino, type Logger } from 'pino';

export type { Logger };

/** JSON lines on stdout. Requests' headers and bodies are never given to it. */
export function createLogger(level: string): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 1, sync: true }));
}
