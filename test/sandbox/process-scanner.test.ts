import { expect, test } from 'vitest';
import { ProcessScanner } from '../../src/sandbox/process-scanner.ts';
import { listPids } from '../../src/sandbox/processes.ts';

test('a look that fails, as without a free descriptor, is not the last one', async () => {
  let isFailing = true;
  const scanner = new ProcessScanner(() => {
    if (isFailing) throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
    return listPids();
  });
  const failed = [scanner.list(), scanner.list()];
  expect((await Promise.allSettled(failed)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  isFailing = false;
  expect((await scanner.list()).map(({ pid }) => pid)).toContain(process.pid);
});
