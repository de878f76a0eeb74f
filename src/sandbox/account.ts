import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { appendFile, chmod, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { promisify } from 'node:util';
import { missingCapabilities } from './capabilities.ts';

const run = promisify(execFile);

/** An account of this machine. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

export interface AccountRequest {
  readonly username: string;
  /** Wanted uid of an account that does not exist yet. */
  readonly userId: number;
}

/** The account of this process. */
export function ownAccount(): Account {
  const { uid, gid, username, homedir } = lookUpOwn();
  return { name: username, uid, gid, home: homedir };
}

function lookUpOwn(): { uid: number; gid: number; username: string; homedir: string } {
  try {
    return userInfo();
  } catch {
    // A uid without a passwd entry: an image started with an arbitrary user.
    const uid = process.getuid?.() ?? 0;
    return { uid, gid: process.getgid?.() ?? 0, username: `${uid}`, homedir: '/' };
  }
}

/** @returns undefined when there is no such account in /etc/passwd */
export function findAccount(name: string): Account | undefined {
  return passwd().find((account) => account.name === name);
}

function passwd(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 7)
    .map(([name = '', , uid, gid, , home = '/']) => ({ name, uid: Number(uid), gid: Number(gid), home }));
}

/**
 * The account that shells run as, made if it does not exist (V0 §1.5). Only root can switch: others keep their own, with a warning.
 * A wanted uid that is taken leads to the next free one, where V0 gave up.
 *
 * @throws when root lacks what switching takes: shells would have rights that nobody wanted them to have
 */
export async function provideAccount(request: AccountRequest, warn: (text: string) => void): Promise<Account> {
  const own = ownAccount();
  if (request.username === own.name) return own;
  if (own.uid !== 0) {
    warn(`--username ${request.username} needs root: shells run as ${own.name}`);
    return own;
  }
  const missing = missingCapabilities();
  if (missing.length > 0) {
    throw new Error(
      `--username ${request.username}: root cannot run shells as another user here, it lacks the capabilities ${missing.join(', ')}. Give it these, or start as that user and without --username.`,
    );
  }
  return findAccount(request.username) ?? createAccount(request, warn);
}

async function createAccount({ username, userId }: AccountRequest, warn: (text: string) => void): Promise<Account> {
  const taken = new Set(passwd().map(({ uid }) => uid));
  let uid = userId;
  while (taken.has(uid)) uid += 1;
  if (uid !== userId) warn(`uid ${userId} belongs to another account: ${username} gets ${uid}`);
  await allowSudo(warn);
  const groups = (await hasGroup('sudo')) ? ['-G', 'sudo'] : [];
  await run('useradd', [
    '-rm',
    '-d',
    `/home/${username}`,
    '-s',
    '/bin/bash',
    '-g',
    'root',
    ...groups,
    '-u',
    `${uid}`,
    username,
  ]);
  const account = findAccount(username);
  if (!account) throw new Error(`useradd made no account ${username}`);
  return account;
}

const SUDOERS_RULE = '%sudo ALL=(ALL) NOPASSWD:ALL';

async function allowSudo(warn: (text: string) => void): Promise<void> {
  try {
    const rules = readFileSync('/etc/sudoers', 'utf8');
    if (rules.includes(SUDOERS_RULE)) return;
    const end = rules === '' || rules.endsWith('\n') ? '' : '\n';
    await appendFile('/etc/sudoers', `${end}${SUDOERS_RULE}\n`);
  } catch (error) {
    warn(`sudo without a password could not be set up: ${String(error)}`);
  }
}

async function hasGroup(name: string): Promise<boolean> {
  return (await run('getent', ['group', name]).catch(() => undefined)) !== undefined;
}

/** A directory that is not there and cannot be made; the message is the reason. */
export class DirectoryError extends Error {
  override name = 'DirectoryError';
}

/**
 * Makes a directory with those above it. Not through Node: its own way never ends below a directory that takes no files, such as /proc.
 *
 * @param mode of the last one, if it is made
 * @throws DirectoryError
 */
export async function makeDirectory(directory: string, mode?: number): Promise<void> {
  const existing = await stat(directory).catch(() => undefined);
  if (existing?.isDirectory()) return;
  if (existing) throw new DirectoryError('there is something that is no directory');
  try {
    const options = mode === undefined ? ['-p'] : ['-p', '-m', mode.toString(8)];
    await run('mkdir', [...options, '--', directory]);
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new DirectoryError(said || String(error), { cause: error });
  }
}

/** Makes the working directory and gives it to the account (V0 §1.5); what fails is told and does not stop the server. */
export async function prepareWorkingDirectory(
  directory: string,
  account: Account,
  group: string,
  warn: (text: string) => void,
): Promise<void> {
  if (SYSTEM_DIRECTORIES.has(directory.replace(/\/+$/, '') || '/')) {
    warn(`working directory ${directory} belongs to the system: its owner is not changed`);
    return;
  }
  try {
    await makeDirectory(directory);
    await run('chown', ['-R', `${account.name}:${group}`, directory]);
    await chmod(directory, 0o775);
  } catch (error) {
    warn(`working directory ${directory}: ${String(error)}`);
  }
}

/** Giving one of these away would break the machine. */
const SYSTEM_DIRECTORIES: ReadonlySet<string> = new Set(
  [
    '',
    'bin',
    'boot',
    'dev',
    'etc',
    'home',
    'lib',
    'lib64',
    'media',
    'mnt',
    'opt',
    'proc',
    'root',
    'run',
    'sbin',
    'srv',
    'sys',
    'tmp',
    'usr',
    'var',
  ].map((name) => `/${name}`),
);
