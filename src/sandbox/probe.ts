import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { arch, release } from 'node:os';

export interface SandboxFacts {
  /** `PRETTY_NAME` of /etc/os-release. */
  readonly os: string;
  readonly arch: string;
  readonly kernel: string;
  /** Version of each tool that was looked for; null when it is not installed. */
  readonly tools: Readonly<Record<string, string | null>>;
}

const TOOL_LIMIT_MS = 5000;
const VERSION = /\d+(?:\.\d+)+[\w.+-]*/;

/** Tools agents ask for, with the arguments that make them name their version. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  bash: ['--version'],
  python: ['--version'],
  python3: ['--version'],
  pip: ['--version'],
  node: ['--version'],
  npm: ['--version'],
  git: ['--version'],
  gcc: ['-dumpfullversion'],
  make: ['--version'],
  go: ['version'],
  cargo: ['--version'],
  java: ['-version'],
  docker: ['--version'],
  curl: ['--version'],
  rg: ['--version'],
  jq: ['--version'],
  chromium: ['--version'],
};

/** Looks once, one tool after another so that a small machine is not kept busy; never rejects. */
export async function probeSandbox(env: Readonly<Record<string, string>>): Promise<SandboxFacts> {
  const tools: Record<string, string | null> = {};
  for (const [name, args] of Object.entries(TOOLS)) tools[name] = await versionOf(name, args, env);
  return { ...systemFacts(), tools };
}

/** What is known without starting a program. */
export function systemFacts(): Omit<SandboxFacts, 'tools'> {
  return { os: osName(), arch: arch(), kernel: release() };
}

function versionOf(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string | null> {
  return new Promise((resolve) => {
    const options = { env, timeout: TOOL_LIMIT_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 } as const;
    const child = execFile(name, args, options, (error, stdout, stderr) => {
      resolve(error ? null : (VERSION.exec(stdout || stderr)?.[0] ?? 'unknown'));
    });
    child.stdin?.end();
  });
}

function osName(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'Linux';
  } catch {
    return 'Linux';
  }
}
