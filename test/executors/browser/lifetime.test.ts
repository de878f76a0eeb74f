/** What is left of a session in the browser that goes on without it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { BrowserProcess } from '../../../executors/browser/browser-process.ts';
import { BrowserSession } from '../../../executors/browser/session.ts';
import { createFileAccess } from '../../../src/sandbox/file-access.ts';
import { needsChromium } from '../../support/browser.ts';

beforeEach(needsChromium);

test('a session that is closed no longer waits for the end of its browser; one that is open does', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'actiond-browser-'));
  const browser = await BrowserProcess.launch({
    path: undefined,
    env: { PATH: process.env['PATH'] ?? '' },
    account: undefined,
    runtimeDir: directory,
    hasPort: false,
    extraArguments: [],
    warn: () => {},
  });
  try {
    const listening = new Set<() => void>();
    const onEnd = browser.onEnd.bind(browser);
    browser.onEnd = (listener) => {
      const stop = onEnd(listener);
      listening.add(listener);
      return () => {
        listening.delete(listener);
        stop();
      };
    };
    const options = {
      access: await createFileAccess(undefined, []),
      workingDir: directory,
      ignoreCertificates: false,
    };
    const open = (name: string): Promise<BrowserSession> => BrowserSession.open(name, browser, options);
    const [first, second] = [await open('first'), await open('second')];
    expect(listening.size).toBe(2);
    await first.close();
    expect(listening.size).toBe(1);
    expect(second.ended.aborted).toBe(false);
    process.kill(browser.pid, 'SIGKILL');
    await new Promise<void>((resolve) => void onEnd(resolve));
    expect(second.ended.aborted).toBe(true);
  } finally {
    await browser.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
