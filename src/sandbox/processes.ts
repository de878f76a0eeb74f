import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** One row of `/proc/PID/stat`. */
export interface ProcessInfo {
  readonly pid: number;
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  /** Session id: the pid of the session leader, a shell's own pid for everything started from it. */
  readonly session: number;
  /** Foreground process group of the controlling terminal, -1 without one. */
  readonly foreground: number;
  /** Clock ticks since boot; with the pid it names one process for ever. */
  readonly startTime: string;
}

const POLL_MS = 20;
/** After the grace, for processes that cannot be killed. */
const KILL_MS = 1000;

/** @returns undefined when the process is gone */
export function readProcess(pid: number): ProcessInfo | undefined {
  const fields = statFields(pid);
  if (fields === undefined) return undefined;
  return {
    pid,
    state: fields[0] ?? 'X',
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    foreground: Number(fields[5]),
    startTime: fields[19] ?? '',
  };
}

/** The row from the state on: the command name before it may contain blanks and parentheses. */
function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Where `/proc/PID/stat` has the exit status, counted from the state. */
const EXIT_STATUS_FIELD = 49;

/**
 * How a process ended, in words such as `exit code 1`: known only until its parent has waited for it.
 * @returns undefined when it has not ended, or nobody can tell any more
 */
export function exitText(pid: number): string | undefined {
  const fields = statFields(pid) ?? [];
  const status = Number(fields[EXIT_STATUS_FIELD]);
  if (fields[0] !== 'Z' || !Number.isInteger(status)) return undefined;
  const signal = status & 0x7f;
  return signal === 0 ? `exit code ${status >> 8}` : `killed by signal ${signal}`;
}

/** The process that has a text in its command line; the first one found. */
export function findByCommandLine(text: string): number | undefined {
  return listProcesses().find(({ pid }) => commandLine(pid).includes(text))?.pid;
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

export function listPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

export function listProcesses(): ProcessInfo[] {
  return listPids()
    .map((pid) => readProcess(pid))
    .filter((info) => info !== undefined);
}

const SHELLS = /^(?:bash|sh|dash|ash|ksh|mksh|zsh|fish|busybox)$/;

/** Whether a process is a shell that takes its commands from a user: without a script and without `-c`. */
export function isInteractiveShell(pid: number): boolean {
  try {
    const program = programName(pid) ?? '';
    const args = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(1, -1);
    return SHELLS.test(program) && args.every((arg) => /^(?:--[a-z-]+|[-+](?!-)[abd-zA-Z]*)$/.test(arg));
  } catch {
    return false;
  }
}

/** Whether there is such a process; one that has ended counts until somebody has waited for it. */
export function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Whether a process of one thread has children, dead ones included that it has not waited for. */
export function hasChildren(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1') !== '';
  } catch {
    // Gone, or a kernel without this file.
    return listProcesses().some(({ parent }) => parent === pid);
  }
}

/** Where a descriptor of a process points, e.g. `/dev/pts/3`; undefined when it cannot be read. */
export function descriptorTarget(pid: number, descriptor: number): string | undefined {
  return linkTarget(pid, `fd/${descriptor}`);
}

function linkTarget(pid: number, name: string): string | undefined {
  const path = `/proc/${pid}/${name}`;
  try {
    return readlinkSync(path);
  } catch (error) {
    return isDenied(error) ? readAsOwner(pid, ['readlink', path])?.replace(/\n$/, '') : undefined;
  }
}

/** The directory a process is in; a removed one keeps its name. */
export function workingDirectory(pid: number): string | undefined {
  return linkTarget(pid, 'cwd')?.replace(/ \(deleted\)$/, '');
}

/** Sends a signal and takes a process that is already gone for success. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // ESRCH: it ended by itself. EPERM: not ours to end.
  }
}

/** Which processes to look for: those below a pid, in one of the sessions, or carrying an environment entry. */
export interface ProcessQuery {
  readonly root?: number;
  readonly sessions?: ReadonlySet<number>;
  /** A whole `NAME=value` entry of the process' initial environment. */
  readonly mark?: string;
  /** A parent that takes in orphans, and the oldest start time of those that count. */
  readonly orphans?: { readonly parent: number; readonly since: string };
}

/** Inits made to have one child, whose orphans they take in: of `init` or a service manager everything on the machine is a child. */
const SMALL_INIT = /^(?:tini|tini-static|docker-init|dumb-init|catatonit|actiond)$/;

/** Where orphans of this process' descendants go, when that is a small init of its own; undefined otherwise. */
export function ownOrphans(): ProcessQuery['orphans'] {
  const parent = process.ppid;
  const self = readProcess(process.pid);
  const program = programName(parent);
  if (!self || program === undefined || !SMALL_INIT.test(program)) return undefined;
  return { parent, since: self.startTime };
}

function programName(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
      .replace(/ \(deleted\)$/, '')
      .split('/')
      .at(-1);
  } catch {
    return undefined;
  }
}

/** Living processes that match the query, with all their descendants; never this process itself. */
export function findProcesses(query: ProcessQuery, listed = listProcesses()): ProcessInfo[] {
  const all = listed.filter(({ pid }) => pid !== process.pid);
  const found = new Set<number>();
  const denied: number[] = [];
  for (const info of all) if (isMatch(info, query, denied)) found.add(info.pid);
  for (const pid of query.mark === undefined ? [] : withEntryAsOwner(denied, query.mark)) found.add(pid);
  for (let grew = true; grew;) {
    grew = false;
    for (const { pid, parent } of all) {
      if (found.has(pid) || !found.has(parent)) continue;
      found.add(pid);
      grew = true;
    }
  }
  return all.filter(({ pid, state }) => found.has(pid) && state !== 'Z' && state !== 'X');
}

function isMatch(info: ProcessInfo, { root, sessions, mark, orphans }: ProcessQuery, denied: number[]): boolean {
  if (root !== undefined && info.parent === root) return true;
  if (orphans && info.parent === orphans.parent && Number(info.startTime) >= Number(orphans.since)) return true;
  if (sessions?.has(info.session)) return true;
  return mark !== undefined && hasEnvironmentEntry(info.pid, mark, denied);
}

function hasEnvironmentEntry(pid: number, entry: string, denied: number[]): boolean {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
    return environment.startsWith(`${entry}\0`) || environment.includes(`\0${entry}\0`);
  } catch (error) {
    if (isDenied(error)) denied.push(pid);
    return false;
  }
}

/** Those of the processes whose initial environment has the entry. */
function withEntryAsOwner(pids: readonly number[], entry: string): number[] {
  const byOwner = new Map<string, number[]>();
  for (const pid of pids) {
    const owner = ownerOf(pid);
    if (owner) byOwner.set(`${owner.uid}:${owner.gid}`, [...(byOwner.get(`${owner.uid}:${owner.gid}`) ?? []), pid]);
  }
  return [...byOwner.values()].flatMap((group) => {
    const files = group.map((pid) => `/proc/${pid}/environ`);
    const output = readAsOwner(group[0] ?? 0, ['grep', '-lzsxF', '-e', entry, '--', ...files]) ?? '';
    return Array.from(output.matchAll(/^\/proc\/(\d+)\//gm), ([, pid]) => Number(pid));
  });
}

const READ_LIMIT_MS = 1000;

/**
 * What a command prints that runs as the owner of a process. Root is denied a look into other users' processes where it lacks
 * CAP_SYS_PTRACE, as in a container; their owner is not.
 */
function readAsOwner(pid: number, command: readonly string[]): string | undefined {
  const owner = process.getuid?.() === 0 ? ownerOf(pid) : undefined;
  if (owner === undefined || owner.uid === 0) return undefined;
  const args = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups', '--', ...command];
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' };
  const { stdout } = spawnSync('setpriv', args, {
    encoding: 'utf8',
    env,
    timeout: READ_LIMIT_MS,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return stdout || undefined;
}

function ownerOf(pid: number): { readonly uid: number; readonly gid: number } | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false });
}

function isDenied(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EACCES';
}

/**
 * Ends all processes of a query: HUP, TERM and CONT, then KILL after `graceMs`; new ones that appear meanwhile are ended too.
 * @param list how to look at all processes
 * @returns how many were still alive at the end (0 unless a process cannot be killed)
 */
export async function endProcesses(
  query: ProcessQuery,
  graceMs: number,
  list: () => ProcessInfo[] | Promise<ProcessInfo[]> = listProcesses,
): Promise<number> {
  const asked = new Set<string>();
  const started = performance.now();
  let wasEmpty = false;
  for (;;) {
    const alive = findProcesses(query, await list());
    if (alive.length === 0) {
      // One may have been made, and its parent have ended, during the look.
      if (wasEmpty) return 0;
      wasEmpty = true;
      continue;
    }
    wasEmpty = false;
    const elapsed = performance.now() - started;
    if (elapsed > graceMs + KILL_MS) return alive.length;
    for (const { pid, startTime } of alive) {
      if (elapsed >= graceMs) signalProcess(pid, 'SIGKILL');
      else if (!asked.has(`${pid}:${startTime}`))
        for (const signal of ['SIGHUP', 'SIGTERM', 'SIGCONT'] as const) signalProcess(pid, signal);
      asked.add(`${pid}:${startTime}`);
    }
    await delay(POLL_MS);
  }
}
