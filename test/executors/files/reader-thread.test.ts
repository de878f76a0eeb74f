/** The thread that reads documents. */
import { expect, test } from 'vitest';
import { readInThread } from '../../../executors/files/reader-thread.ts';

const { signal } = new AbortController();

test('a thread that cannot be started leaves the place to the next one', async () => {
  const unsendable = { bytes: () => 'no copy can be made of a function' };
  await expect(readInThread('office-worker.mjs', unsendable, signal)).rejects.toThrow('could not be cloned');
  const request = { bytes: new Uint8Array(1), extension: '.docx' };
  await expect(readInThread('office-worker.mjs', request, signal)).rejects.not.toThrow('other files have been read');
});
