import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 10;

/** Looks again and again until the condition holds; throws after `limitMs`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await delay(POLL_MS);
  }
}
