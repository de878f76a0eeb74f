import { describe, expect, test } from 'vitest';
import type { Call } from '../../src/dispatch/call.ts';
import { Journal } from '../../src/dispatch/journal.ts';
import type { NewEvent } from '../../src/events/types.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import { Secrets } from '../../src/sandbox/secrets.ts';

const SECRET = 'password-number-1';

/** A journal into a list, and one call in it. */
function begin(maxOutputBytes: number): { journal: Journal; call: Call; texts: () => string[]; events: NewEvent[] } {
  const events: NewEvent[] = [];
  const secrets = new Secrets([]);
  secrets.add(SECRET);
  const writer = {
    append: (event: NewEvent): number => events.push(event),
    flush: (): Promise<void> => Promise.resolve(),
  };
  const call: Call = {
    id: 'a',
    action: { action: 'read', args: { path: '/x' } } as Call['action'],
    lane: 'lane',
    isHidden: false,
    idempotency: undefined,
    created: new Date(),
    controller: new AbortController(),
    status: 'running',
    started: new Date(),
    finished: undefined,
  };
  const journal = new Journal({ writer, secrets, maxOutputBytes });
  const texts = (): string[] => events.filter(({ kind }) => kind === 'output').map((event) => String(event['text']));
  return { journal, call, texts, events };
}

describe('live output of any executor', () => {
  test('a secret at the limit: no part of it', async () => {
    for (let before = 0; before <= SECRET.length; before += 1) {
      const { journal, call, texts, events } = begin(SECRET.length);
      journal.output(call, 'x'.repeat(before));
      journal.output(call, SECRET);
      await journal.finished(call, { observation: errorObservation('') }, 1);
      const isWhole = before === 0;
      expect(texts().join('')).toBe(isWhole ? '<secret_hidden>' : 'x'.repeat(before));
      expect(events.at(-2)).toMatchObject({ text: '', truncated: true });
    }
  });

  test('the limit counts bytes, and cuts between characters', async () => {
    const { journal, call, texts } = begin(10);
    journal.output(call, '漢漢');
    journal.output(call, '😀字');
    journal.output(call, 'more');
    await journal.finished(call, { observation: errorObservation('') }, 1);
    expect(texts()).toEqual(['漢漢😀', '']);
  });
});
