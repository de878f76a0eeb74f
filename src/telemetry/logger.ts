import { pino, type Logger } from 'pino';
import type { Secrets } from '../sandbox/secrets.ts';

export type { Logger };

/** JSON lines on stdout, without secrets. Requests' headers and bodies are never given to it. */
export function createLogger(level: string, secrets?: Secrets): Logger {
  const stdout = pino.destination({ fd: 1, sync: true });
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  return secrets
    ? pino(options, { write: (line: string) => stdout.write(masked(line, secrets)) })
    : pino(options, stdout);
}

/** In the values of the line, not in its text: there, a secret may be written with escapes. */
function masked(line: string, secrets: Secrets): string {
  const entry: unknown = JSON.parse(line);
  const shown = secrets.maskValue(entry);
  return shown === entry ? line : `${JSON.stringify(shown)}\n`;
}
