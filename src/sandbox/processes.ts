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

/** @returns undefined when the process is gone */
export function readProcess(pid: number): ProcessInfo | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // The command name may contain blanks and parentheses: fields count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
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

export function listProcesses(): ProcessInfo[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((info) => info !== undefined);
}

/** Whether there is such a process; one that has ended counts until somebody has waited for it. */
export function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Whether a process has children, dead ones included that it has not waited for. */
export function hasChildren(pid: number): boolean {
  return listProcesses().some(({ parent }) => parent === pid);
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
}

/** Living processes that match the query, with all their descendants; never this process itself. */
export function findProcesses(query: ProcessQuery): ProcessInfo[] {
  const all = listProcesses().filter(({ pid }) => pid !== process.pid);
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

function isMatch(info: ProcessInfo, { root, sessions, mark }: ProcessQuery, denied: number[]): boolean {
  if (root !== undefined && info.parent === root) return true;
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
 * @returns how many were still alive at the end (0 unless a process cannot be killed)
 */
export async function endProcesses(query: ProcessQuery, graceMs: number, killMs = 1000): Promise<number> {
  const asked = new Set<string>();
  const started = performance.now();
  for (;;) {
    const alive = findProcesses(query);
    if (alive.length === 0) return 0;
    const elapsed = performance.now() - started;
    if (elapsed > graceMs + killMs) return alive.length;
    for (const { pid, startTime } of alive) {
      if (elapsed >= graceMs) signalProcess(pid, 'SIGKILL');
      else if (!asked.has(`${pid}:${startTime}`))
        for (const signal of ['SIGHUP', 'SIGTERM', 'SIGCONT'] as const) signalProcess(pid, signal);
      asked.add(`${pid}:${startTime}`);
    }
    await delay(POLL_MS);
  }
}
