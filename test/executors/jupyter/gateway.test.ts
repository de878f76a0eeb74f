/** The life of a gateway of our own, with programs in the place of Python that do what Jupyter does only by chance. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ChildGateway } from '../../../executors/jupyter/gateway.ts';
import { until } from '../../support/wait.ts';

let directory: string;
let gateway: ChildGateway | undefined;

beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), 'actiond-gateway-'))));
afterEach(async () => {
  await gateway?.stop();
  rmSync(directory, { recursive: true, force: true });
});

function program(name: string, script: string): string {
  const path = join(directory, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

function gatewayOf(...interpreters: readonly string[]): ChildGateway {
  gateway = new ChildGateway({
    interpreters,
    account: undefined,
    env: { PATH: process.env['PATH'] ?? '' },
    directory: join(directory, 'run'),
    onLog: () => {},
  });
  return gateway;
}

test('who finds that the one before does not answer does not end its successor', async () => {
  const serving = gatewayOf(program('serves', `echo '{"port": 1}'; exec sleep 1000`));
  const first = await serving.start();
  serving.giveUp(first);
  const second = await serving.start();
  expect(second).not.toBe(first);
  serving.giveUp(first);
  expect(await serving.start()).toBe(second);
});

test('nothing is started any more when it is stopped while it starts', async () => {
  const [begun, ran] = [join(directory, 'begun'), join(directory, 'ran')];
  const starting = gatewayOf(
    program('hangs', `: > ${begun}; exec sleep 1000`),
    program('next', `: > ${ran}; echo '{"port": 1}'; exec sleep 1000`),
  );
  const outcome = starting.start().then(
    () => 'started',
    (error: Error) => error.message,
  );
  await until('the first program', () => existsSync(begun));
  await starting.stop();
  expect(await outcome).toBe('The server is shutting down.');
  expect(existsSync(ran)).toBe(false);
});

test('what it says in the very moment of its end is told', async () => {
  const ending = program('ends', `(while kill -0 $$; do :; done 2>/dev/null; echo "last words" >&2) & exit 1`);
  await expect(gatewayOf(ending).start()).rejects.toThrow(`(${ending}: exit code 1: last words)`);
});
