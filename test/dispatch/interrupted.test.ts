import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { closeInterrupted } from '../../src/dispatch/interrupted.ts';
import { filesOf, KIB, openLog, readAll, temporaryDirectory } from '../events/support.ts';

const run = (command: string): object => ({ action: 'run', args: { command } });

test('an open action that cannot be read any more is closed, and so are those after it', async () => {
  await using directory = await temporaryDirectory();
  const options = { segmentBytes: 4 * KIB };
  {
    await using opened = await openLog(directory.path, options);
    const { log } = opened;
    await log.flush(log.append({ kind: 'action', action_id: 'lost', lane: 'a', action: run('one') }));
    await log.flush(log.append({ kind: 'server', text: 'x'.repeat(5 * KIB) }));
    await log.flush(log.append({ kind: 'action', action_id: 'kept', lane: 'b', action: run('two') }));
  }
  const [oldest = ''] = await filesOf(directory.path, '.seg');
  const file = path.join(directory.path, oldest);
  const data = await readFile(file);
  data[data.length - 5]! ^= 1;
  await writeFile(file, data);

  await using opened = await openLog(directory.path, options);
  const { log } = opened;
  expect(log.recovered.openActions.map(({ action_id }) => action_id)).toEqual(['lost', 'kept']);
  await closeInterrupted(log.recovered.openActions, log);
  await log.flush();
  const ends = (await readAll(log)).filter(({ kind }) => kind === 'observation');
  expect(ends).toMatchObject([
    { action_id: 'lost', status: 'interrupted', observation: { observation: 'error' } },
    { action_id: 'kept', status: 'interrupted', lane: 'b', observation: { observation: 'run' } },
  ]);
});

test('an open action whose payload could not be stored is closed', async () => {
  await using directory = await temporaryDirectory();
  const endless: { self?: object } = {};
  endless.self = endless;
  {
    await using opened = await openLog(directory.path);
    await opened.log.flush(opened.log.append({ kind: 'action', action_id: 'odd', action: endless }));
  }
  await using opened = await openLog(directory.path);
  const { log } = opened;
  await closeInterrupted(log.recovered.openActions, log);
  await log.flush();
  expect((await readAll(log)).at(-1)).toMatchObject({ action_id: 'odd', status: 'interrupted' });
});
