import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findAccount, ownAccount, prepareWorkingDirectory, provideAccount } from '../../src/sandbox/account.ts';

const isRoot = process.getuid?.() === 0;

test('the own account', () => {
  const { username, uid, gid, homedir } = userInfo();
  expect(ownAccount()).toEqual({ name: username, uid, gid, home: homedir });
});

test('accounts are found by their whole name', () => {
  expect(findAccount('root')).toEqual({ name: 'root', uid: 0, gid: 0, home: '/root' });
  const line =
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((candidate) => candidate.startsWith('nobody:')) ?? '';
  const [name = '', , uid, gid, , home] = line.split(':');
  expect(findAccount(name)).toEqual({ name, uid: Number(uid), gid: Number(gid), home });
  for (const unknown of ['roo', 'root:x', '', 'x'.repeat(1000), '__proto__'])
    expect(findAccount(unknown)).toBeUndefined();
});

test('the own name is the own account, whatever uid is asked for', async () => {
  const warnings: string[] = [];
  const account = await provideAccount({ username: userInfo().username, userId: 4711 }, (text) => warnings.push(text));
  expect([account, warnings]).toEqual([ownAccount(), []]);
});

test.skipIf(!isRoot)('an account that exists keeps its uid (needs root)', async () => {
  const account = await provideAccount({ username: 'nobody', userId: 4711 }, () => undefined);
  expect(account).toEqual(findAccount('nobody'));
});

test.skipIf(!isRoot)('the working directory is made and given to the account (needs root)', async () => {
  const root = mkdtempSync(join(tmpdir(), 'actiond-account-'));
  try {
    const directory = join(root, 'a/b');
    const warnings: string[] = [];
    const nobody = findAccount('nobody') ?? ownAccount();
    await prepareWorkingDirectory(directory, nobody, 'root', (text) => warnings.push(text));
    const { uid, gid, mode } = statSync(directory);
    expect([uid, gid, mode & 0o777, warnings]).toEqual([nobody.uid, 0, 0o775, []]);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});

test.each(['/', '/tmp', '/usr/', '/root'])('%s is never given away', async (directory) => {
  const before = statSync(directory);
  const warnings: string[] = [];
  await prepareWorkingDirectory(directory, findAccount('nobody') ?? ownAccount(), 'root', (text) =>
    warnings.push(text),
  );
  const after = statSync(directory);
  expect([after.uid, after.gid, after.mode]).toEqual([before.uid, before.gid, before.mode]);
  expect(warnings).toHaveLength(1);
});

test('what fails is told, not thrown', async () => {
  const warnings: string[] = [];
  await prepareWorkingDirectory('/dev/null/below', ownAccount(), 'root', (text) => warnings.push(text));
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('/dev/null/below');
});
