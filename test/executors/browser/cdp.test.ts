/** The pipe to the browser: what the driver may count on. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CdpConnection } from '../../../executors/browser/cdp.ts';

test('a message is worked on before the next one of the same piece comes', async () => {
  const input = new PassThrough();
  const { transport } = new CdpConnection(new PassThrough(), input);
  const seen: string[] = [];
  const whole = new Promise<void>((resolve) => {
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the driver's interface has no other way
    transport.onmessage = (message) => {
      const { method } = message as { method: string };
      seen.push(`${method} comes`);
      void (async () => {
        // As a reply that passes through several promises before somebody listens for what follows it.
        for (let step = 0; step < 20; step += 1) await Promise.resolve();
        seen.push(`${method} is worked on`);
        if (method === 'third') resolve();
      })();
    };
  });
  input.write('{"method":"first"}\0{"method":"second"}\0{"meth');
  input.write('od":"third"}\0');
  await whole;
  expect(seen).toEqual(['first', 'second', 'third'].flatMap((method) => [`${method} comes`, `${method} is worked on`]));
});

test('what came before the end is handled before it', async () => {
  const input = new PassThrough();
  const connection = new CdpConnection(new PassThrough(), input);
  const reply = connection.send<{ value: number }>('Test.ask', {});
  const open = connection.send('Test.other', {});
  open.catch(() => {});
  input.end('{"id":1000000000,"result":{"value":7}}\0');
  expect(await reply).toEqual({ value: 7 });
  await expect(open).rejects.toThrow('The browser has ended.');
  await expect(connection.send('Test.late', {})).rejects.toThrow('The browser has ended.');
});
