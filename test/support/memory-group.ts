import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { until } from './wait.ts';

const GROUPS = '/sys/fs/cgroup/memory';
/** A group of our own can be made: root, and version 1 with a writable tree. */
export const canLimitMemory = process.getuid?.() === 0 && existsSync(`${GROUPS}/memory.oom_control`);

let made = 0;

/** A control group with a memory limit; disposing removes it once all processes in it have ended. */
export class MemoryGroup implements AsyncDisposable {
  readonly #path = `${GROUPS}/actiond-test-${process.pid}-${(made += 1)}`;

  constructor(limitBytes: number) {
    mkdirSync(this.#path);
    writeFileSync(`${this.#path}/memory.limit_in_bytes`, `${limitBytes}`);
  }

  /** Before a program and its arguments: starts it in the group. */
  get starter(): string[] {
    return ['sh', '-c', `echo $$ >${this.#path}/cgroup.procs && exec "$0" "$@"`];
  }

  /** Takes this process in until the returned function is called. */
  enter(): () => void {
    const home = /:memory:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/';
    writeFileSync(`${this.#path}/cgroup.procs`, `${process.pid}`);
    return () => writeFileSync(`${GROUPS}${home === '/' ? '' : home}/cgroup.procs`, `${process.pid}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await until('the processes of the group to be gone', () => {
      try {
        rmdirSync(this.#path);
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
        throw error;
      }
    });
  }
}
