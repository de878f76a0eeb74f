import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { arch, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { probeSandbox, systemFacts } from '../../src/sandbox/probe.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'actiond-probe-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function tool(name: string, script: string): void {
  writeFileSync(join(directory, name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(directory, name), 0o755);
}

test('system', () => {
  const facts = systemFacts();
  expect(facts).toMatchObject({ arch: arch(), kernel: release() });
  expect(execFileSync('cat', ['/etc/os-release'], { encoding: 'utf8' })).toContain(facts.os);
});

test('versions of what is there, null for what is not', async () => {
  tool('git', 'echo "git version 9.8.7.windows.1"');
  tool('java', 'echo "openjdk 21.0.1 2023-10-17" >&2');
  tool('node', 'echo v20.1.2');
  tool('go', 'echo "go version go1.22.3 linux/amd64"');
  tool('make', 'echo no number here');
  tool('jq', 'echo jq-1.6; exit 3');
  const { tools } = await probeSandbox({ PATH: directory });
  expect(tools).toMatchObject({
    java: '21.0.1',
    node: '20.1.2',
    go: '1.22.3',
    make: 'unknown',
    jq: null,
    docker: null,
    python: null,
  });
  expect(tools['git']).toMatch(/^9\.8\.7/);
});

test('tools that read, flood or cannot be started do not hold it up', async () => {
  tool('git', 'read line; echo "git version 1.2.3"');
  tool('docker', 'while :; do echo 1.2.3; done');
  tool('bash', 'echo "GNU bash, version 5.2.15(1)-release"');
  tool('jq', 'kill -9 $$');
  writeFileSync(join(directory, 'curl'), 'no program');
  writeFileSync(join(directory, 'rg'), '#!/no/such/interpreter\n');
  for (const name of ['curl', 'rg']) chmodSync(join(directory, name), 0o755);
  const { tools } = await probeSandbox({ PATH: directory });
  expect(tools).toMatchObject({ git: '1.2.3', docker: null, jq: null, curl: null, rg: null });
  expect(tools['bash']).toMatch(/^5\.2\.15/);
});
