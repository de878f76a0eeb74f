import type { RunOptions, RunReply, TestServer } from './server.ts';

/** A program that says nothing for so many polls (each a silence limit long) hangs. */
const MAX_POLLS = 30;

/** One named session of a server: tests that share a server do not share a shell. */
export class TestShell {
  readonly #server: TestServer;
  readonly #session: string;

  constructor(server: TestServer, session: string) {
    this.#server = server;
    this.#session = session;
  }

  run(command: string, options: RunOptions = {}): Promise<RunReply> {
    return this.#server.run(command, { session: this.#session, ...options });
  }

  soft(command: string, options: RunOptions = {}): Promise<RunReply> {
    return this.#server.soft(command, { session: this.#session, ...options });
  }

  input(command: string, options: RunOptions = {}): Promise<RunReply> {
    return this.#server.input(command, { session: this.#session, ...options });
  }

  /** Polls until the running program has shown `text`. @returns all that it showed since `first` */
  async shown(first: Promise<RunReply>, text: string): Promise<string> {
    let reply = await first;
    let all = reply.content;
    for (let polls = 0; !all.includes(text); polls += 1) {
      if (reply.exitCode !== -1) throw new Error(`ended with ${reply.exitCode} before it showed ${text}: ${all}`);
      if (polls === MAX_POLLS) throw new Error(`never showed ${text}: ${all.slice(-2000)}`);
      reply = await this.soft('');
      all += `\n${reply.content}`;
    }
    return all;
  }

  /** Polls until the running program has ended. @returns the last answer, with all content since `first` */
  async ended(first: Promise<RunReply>): Promise<RunReply> {
    let reply = await first;
    let all = reply.content;
    for (let polls = 0; reply.exitCode === -1; polls += 1) {
      if (polls === MAX_POLLS) throw new Error(`never ended: ${all.slice(-2000)}${reply.suffix}`);
      reply = await this.soft('');
      all += `\n${reply.content}`;
    }
    return { ...reply, content: all };
  }

  /** The shell's own pid, which changes when it is started anew. */
  async pid(): Promise<number> {
    return Number((await this.run('echo $$')).content);
  }
}
