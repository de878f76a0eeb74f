// What is said of the images, checked on running containers. Started by scripts/image-test.sh.

import { strict as assert } from 'node:assert';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { docker, freePort, imageExists, until, withContainer } from './docker.mjs';

const TAGS = ['bare', 'jupyter', 'browser', 'full', 'v0', 'v1'];
const READ_ONLY = ['--read-only', '--cap-drop=ALL', '--security-opt=no-new-privileges'];
/** Sees what a page would be served by. */
const SITE = `mkdir -p /tmp/site && echo '<title>Site</title><h1>It works</h1>' >/tmp/site/index.html
cd /tmp/site && (python3 -u -m http.server 0 --bind 127.0.0.1 >/tmp/site.log 2>&1 &)
until grep -o 'port [0-9]*' /tmp/site.log; do sleep 0.05; done`
  .replaceAll('\n', '; ')
  .replace('; ; ', '; ');

const run = promisify(execFile);

class Skip extends Error {}

async function composeTool() {
  for (const tool of [['docker', 'compose'], ['docker-compose']]) {
    const works = await run(tool[0], [...tool.slice(1), 'version']).then(
      () => true,
      () => false,
    );
    if (works) return tool;
  }
  return undefined;
}

function requirePart(state, name) {
  if (state === 'off' || state === undefined) throw new Skip(`this daemon has no ${name} executor`);
}

async function doubleForks(container) {
  const failing = await container.bash('for i in $(seq 1000); do ( ( exit 3 ) & ); done; (exit 42)', 120);
  assert.equal(failing.extras.metadata.exit_code, 42);
  const count = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '";
  await until('the orphans to be reaped', async () => (await container.bash(count)).content.trim() === '0', 15_000);
  const codes = await container.bash('for i in 1 2 3 200; do bash -c "exit $i"; echo $?; done');
  assert.equal(codes.content, '1\n2\n3\n200');
}

async function stops(container) {
  void container.bash('sleep 600', 600).catch(() => {});
  await until('the action to run', async () => (await container.request('/server_info')).running_actions > 0);
  const { seconds, code } = await container.stop();
  assert.equal(code, 0);
  assert.ok(seconds <= 5, `it took ${seconds.toFixed(1)} s`);
  return `${seconds.toFixed(1)} s with a command running`;
}

function becomesHealthy({ id }) {
  const health = async () => (await docker('inspect', '-f', '{{.State.Health.Status}}', id)) === 'healthy';
  return until('health', health, 40_000).then(() => undefined);
}

/**
 * The file as it is, but for what this test's engine has not: `ports` needs a bridge, `ulimits` a machine that allows as many files,
 * and the image is there already.
 */
function hostNetworkVariant(text, port) {
  const kept = text.replaceAll(/^    (?:build|ports|ulimits):\n(?: {6}.*\n)+/gm, '');
  const replaced = kept.replace(/^    image: .*$/m, '    image: actiond-test/full\n    network_mode: host');
  return replaced.replace(/^    environment:$/m, `$&\n      ACTIOND_PORT: '${port}'`);
}

async function composeUp() {
  const tool = await composeTool();
  if (tool === undefined) throw new Skip('there is no docker compose here');
  const folder = await mkdtemp('/tmp/actiond-compose-');
  const port = await freePort();
  const key = 'test-key';
  const compose = (...args) =>
    run(tool[0], [...tool.slice(1), '-f', `${folder}/docker-compose.yaml`, ...args], {
      env: { ...process.env, SESSION_API_KEY: key },
    });
  try {
    await writeFile(
      `${folder}/docker-compose.yaml`,
      hostNetworkVariant(await readFile('docker-compose.yaml', 'utf8'), port),
    );
    await compose('up', '-d', '--no-build');
    const url = `http://127.0.0.1:${port}`;
    await until('/alive', async () => (await fetch(`${url}/alive`)).ok);
    const command =
      'id -un; touch /workspace/a ~/b /tmp/c && echo written; touch /usr/d; df --output=size -k /dev/shm | tail -n 1';
    const ask = (headers) =>
      fetch(`${url}/execute_action`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ action: { action: 'run', args: { command } } }),
      });
    assert.equal((await ask({})).status, 403);
    const { content } = await (await ask({ 'x-session-api-key': key })).json();
    assert.match(content, /^openhands\nwritten\ntouch: .*Read-only file system\n *1048576$/);
    const started = performance.now();
    await compose('stop');
    return `ends in ${((performance.now() - started) / 1000).toFixed(1)} s`;
  } finally {
    await compose('down', '-v').catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
  }
}

async function hogIsKilled(container) {
  const hog = await container.bash(`python3 -c "x = bytearray(2**30); print('kept')"; (exit $?)`, 60);
  assert.equal(hog.extras.metadata.exit_code, 137, hog.content);
  assert.match(hog.extras.metadata.suffix, /ran out of memory/);
  const next = await container.bash('echo lives');
  assert.equal(next.content, 'lives');
}

async function cellHogIsKilled(container) {
  const cell = async (code) => (await container.action('run_ipython', { code, include_extra: false }, 120)).content;
  assert.equal(await cell('print(6 * 7)'), '42');
  assert.match(await cell('x = bytearray(2 ** 31)'), /killed by signal 9: the sandbox ran out of memory/);
  assert.equal(await cell('print(6 * 8)'), '48');
}

async function healsWithoutProcesses(container) {
  const full = await container.bash('for i in $(seq 100); do sleep 300 & done', 90);
  assert.match(full.extras.metadata.suffix, /No more processes could be started/);
  assert.equal((await container.bash('echo works')).content, 'works');
}

/** A terminal takes a process and a thread. */
async function refusesTheLastProcess(container) {
  const count = 'for f in /sys/fs/cgroup/pids/pids.current /sys/fs/cgroup/pids.current; do [ -r $f ] && break; done';
  await container.bash(`${count}; until read n <$f; [ $n -ge 63 ]; do sleep 300 & done 2>/dev/null`);
  const { content } = await container.action('run', { command: 'echo hi', is_static: true }, 20);
  assert.match(content, /no more processes can be started/);
  assert.equal((await container.request('/alive')).status, 'ok');
}

/** They share a volume, and do not see each other's processes. */
async function excludesAnother(tag) {
  const state = `actiond-test-${Date.now()}`;
  const options = ['-v', `${state}:/var/lib/actiond`];
  try {
    await withContainer(tag, { options }, async (first) => {
      const image = `actiond-test/${tag}`;
      const second = run('docker', ['run', '--rm', '--network=host', '-e', 'ACTIOND_PORT=0', ...options, image]);
      const { code, stderr } = await second.catch((error) => error);
      assert.equal(code, 1);
      assert.match(stderr, /\/var\/lib\/actiond is in use by a running server in another container/);
      assert.equal((await first.bash('echo lives')).content, 'lives');
    });
  } finally {
    await docker('volume', 'rm', '-f', state);
  }
}

async function continuesEvents(tag) {
  const state = `actiond-test-${Date.now()}`;
  const options = { options: ['-v', `${state}:/var/lib/actiond`] };
  try {
    const before = await withContainer(tag, options, async (container) => {
      await container.bash('echo first');
      const { stream, latest } = await container.request('/events?after=0');
      await container.stop();
      return { stream, latest };
    });
    await withContainer(tag, options, async (container) => {
      await container.bash('echo second');
      const after = await container.request(`/events?after=0&limit=1000`);
      assert.equal(after.stream, before.stream);
      assert.deepEqual(
        after.events.map(({ seq }) => seq),
        after.events.map((_, index) => index + 1),
      );
      assert.ok(after.latest > before.latest);
      const text = JSON.stringify(after.events);
      assert.ok(text.includes('echo first') && text.includes('echo second'));
    });
  } finally {
    await docker('volume', 'rm', '-f', state);
  }
}

const v0Command = (port) =>
  ['/openhands/micromamba/bin/micromamba', 'run', '-n', 'openhands', 'poetry', 'run', 'python', '-u', '-m']
    .concat('openhands.runtime.action_execution_server', `${port}`, '--working-dir', '/workspace')
    .concat('--plugins', 'agent_skills', 'jupyter', '--username', 'openhands', '--user-id', '1000');

/** What the image says itself: a port that the client chose is in the command alone. */
const IMAGES_PORT = { ACTIOND_PORT: '8000' };

/** As DockerRuntime creates its container: no entrypoint, a directory of the host as workspace. */
async function withV0(use) {
  const workspace = await mkdtemp('/tmp/actiond-image-v0-');
  try {
    const options = ['--entrypoint=', '--workdir=/openhands/code/', '-v', `${workspace}:/workspace:rw`];
    const how = { options, command: v0Command, environment: IMAGES_PORT };
    return await withContainer('v0', how, (container) => use(container, workspace));
  } finally {
    await rm(workspace, { recursive: true, force: true });
  }
}

const agentServer = '/usr/local/bin/openhands-agent-server';

// Name, image, and what is done; a text that comes back is a figure to show.
/** @type {[name: string, tag: string, check: () => Promise<unknown>][]} */
const CHECKS = [
  [
    'docker-compose.yaml is valid',
    'full',
    async () => {
      process.env['SESSION_API_KEY'] = 'test-key';
      const tool = await composeTool();
      if (tool === undefined) throw new Skip('there is no docker compose here');
      await run(tool[0], [...tool.slice(1), '-f', 'docker-compose.yaml', 'config', '--quiet']);
    },
  ],
  ['docker compose up, on the network of the host', 'full', composeUp],
  [
    'start to /alive',
    'full',
    () => withContainer('full', {}, ({ startMs }) => `${startMs.toFixed(0)} ms with the container`),
  ],
  [
    'bash as openhands, not root',
    'full',
    () =>
      withContainer('full', {}, async (container) => {
        const { content } = await container.bash('id -un; id -u; pwd; echo $HOME');
        assert.equal(content, 'openhands\n1000\n/workspace\n/home/openhands');
      }),
  ],
  [
    'PID 1 is tini',
    'full',
    () =>
      withContainer('full', {}, async (container) =>
        assert.equal((await container.bash('cat /proc/1/comm')).content, 'tini'),
      ),
  ],
  ['Docker finds it healthy', 'full', () => withContainer('full', {}, becomesHealthy)],
  [
    'nothing of the build is left',
    'full',
    async () => {
      const left = await docker(
        'run',
        '--rm',
        '--entrypoint',
        'sh',
        'actiond-test/full',
        '-c',
        'ls -d /src /out /root/.npm /root/.cache 2>/dev/null; command -v g++; ls /var/lib/apt/lists',
      );
      assert.equal(left, '');
    },
  ],
  [
    'a cell',
    'full',
    () =>
      withContainer('full', {}, async (container) => {
        requirePart((await container.request('/ready')).subsystems.jupyter, 'Jupyter');
        const { content } = await container.action('run_ipython', { code: 'print(6 * 7)' }, 120);
        assert.match(content, /^42/);
      }),
  ],
  [
    'a page',
    'full',
    () =>
      withContainer('full', { options: ['--shm-size=1g'] }, async (container) => {
        requirePart((await container.request('/ready')).subsystems.browser, 'browser');
        const port = /port (\d+)/.exec((await container.bash(SITE)).content)?.[1];
        const { content } = await container.action('browse', { url: `http://127.0.0.1:${port}/` }, 120);
        assert.match(content, /It works/);
      }),
  ],
  [
    'without Jupyter and Chromium /ready is ready and says so',
    'bare',
    () =>
      withContainer('bare', {}, async (container) => {
        const { status, subsystems } = await container.request('/ready');
        assert.equal(status, 'ready');
        for (const name of ['jupyter', 'browser']) assert.match(subsystems[name], /^(off|failed)$/, name);
      }),
  ],
  ['docker stop within 5 s, exit code 0', 'bare', () => withContainer('bare', {}, stops)],
  ['1,000 double forks: no zombie, right exit codes', 'bare', () => withContainer('bare', {}, doubleForks)],
  [
    'the same below the init of docker run --init, with nothing to complain of',
    'bare',
    () =>
      withContainer('bare', { options: ['--init'] }, async (container) => {
        await doubleForks(container);
        const { stdout, stderr } = await run('docker', ['logs', container.id]);
        assert.doesNotMatch(stdout + stderr, /tini/);
      }),
  ],
  [
    'the same with the executable as PID 1',
    'bare',
    () => withContainer('bare', { options: ['--entrypoint', '/usr/local/bin/actiond'] }, doubleForks),
  ],
  [
    'docker stop with the executable as PID 1',
    'bare',
    () => withContainer('bare', { options: ['--entrypoint', '/usr/local/bin/actiond'] }, stops),
  ],
  [
    'a hog is killed at the memory limit, the daemon lives and says so',
    'bare',
    () => withContainer('bare', { options: ['--memory=400m', '--memory-swap=400m'] }, hogIsKilled),
  ],
  [
    'the same at the smallest limit that is promised',
    'bare',
    () => withContainer('bare', { options: ['--memory=128m', '--memory-swap=128m'] }, hogIsKilled),
  ],
  [
    'a cell that takes too much is killed, its answer says so',
    'full',
    () => withContainer('full', { options: ['--memory=400m', '--memory-swap=400m'] }, cellHogIsKilled),
  ],
  [
    'read-only root',
    'full',
    () =>
      withContainer('full', { options: [...READ_ONLY, '--tmpfs', '/tmp'] }, async (container) => {
        assert.equal(
          (await container.bash('touch /workspace/x && echo written; touch /usr/x')).extras.metadata.exit_code,
          1,
        );
        assert.equal((await container.bash('ls /workspace')).content, 'x');
      }),
  ],
  [
    'read-only root without /tmp, the executable as PID 1',
    'bare',
    () =>
      withContainer('bare', { options: [...READ_ONLY, '--entrypoint', '/usr/local/bin/actiond'] }, async (container) =>
        assert.equal((await container.bash('echo works')).content, 'works'),
      ),
  ],
  [
    'read-only root without /tmp: a cell, a page',
    'full',
    () =>
      withContainer('full', { options: READ_ONLY }, async (container) => {
        const { content } = await container.action('run_ipython', { code: 'print(6 * 7)' }, 120);
        assert.match(content, /^42/);
        const page = await container.action('browse', { url: 'data:text/html,<h1>It works</h1>' }, 120);
        assert.match(page.content, /# It works/);
      }),
  ],
  [
    'an arbitrary uid',
    'full',
    () =>
      withContainer('full', { options: ['--user', '12345:0'] }, async (container) => {
        const { content } = await container.bash(
          'id -u; touch /workspace/mine && stat -c %u /workspace/mine; touch ~/x && echo home',
        );
        assert.equal(content, '12345\n12345\nhome');
      }),
  ],
  [
    'no process left: the shell heals',
    'bare',
    () => withContainer('bare', { options: ['--pids-limit=64'] }, healsWithoutProcesses),
  ],
  [
    'room for one process: a shell is refused, the daemon lives',
    'bare',
    () => withContainer('bare', { options: ['--pids-limit=64'] }, refusesTheLastProcess),
  ],
  ['a second container on the same state is refused', 'bare', () => excludesAnother('bare')],
  ['a restart with the same state continues the event stream', 'bare', () => continuesEvents('bare')],
  [
    "V0's start command serves, as root with the shell of openhands",
    'v0',
    () =>
      withV0(async (container, workspace) => {
        const { content } = await container.bash(
          'id -un; pwd; sudo -n id -un; python3 --version >/dev/null && git --version >/dev/null; echo $?',
        );
        assert.equal(content, 'openhands\n/workspace\nroot\n0');
        const owner = await docker('exec', container.id, 'sh', '-c', 'stat -c %U /proc/$(pgrep -o actiond)');
        assert.equal(owner, 'root');
        const setUp = await container.bash(
          'export FOOBAR="BAZ"; touch ~/.bashrc && git config --global user.name openhands && touch /workspace/of-agent',
        );
        assert.equal(setUp.extras.metadata.exit_code, 0);
        assert.equal((await stat(`${workspace}/of-agent`)).uid, 1000);
        // A panel of the client falls back to its own copy of what is not there.
        const panel = await container.bash('python3 /openhands/code/openhands/runtime/utils/git_changes.py');
        assert.notEqual(panel.extras.metadata.exit_code, 0);
      }),
  ],
  ["V0's start command, docker stop while Jupyter starts", 'v0', () => withV0((container) => stops(container))],
  ["V0's start command, Docker finds it healthy at the port of the command", 'v0', () => withV0(becomesHealthy)],
  [
    "V0's interpreter path of kernels",
    'v0',
    async () => {
      const path = '/openhands/poetry/openhands-ai-5O4_aCHf-py3.12/bin/python';
      const found = await docker(
        'run',
        '--rm',
        '--entrypoint',
        '/openhands/micromamba/bin/micromamba',
        'actiond-test/v0',
        'run',
        '-n',
        'openhands',
        'poetry',
        'run',
        path,
        '-c',
        'import ipykernel, sys; print(sys.executable)',
      );
      assert.equal(found, path);
    },
  ],
  [
    'V1: arguments of DockerWorkspace, uid 10001',
    'v1',
    () =>
      withContainer(
        'v1',
        {
          command: (port) => ['--host', '0.0.0.0', '--port', `${port}`],
          path: '/health',
          environment: IMAGES_PORT,
        },
        async (container) => {
          const { content } = await container.bash('id -u; pwd');
          assert.equal(content, '10001\n/workspace/project');
          await becomesHealthy(container);
        },
      ),
  ],
  [
    'V1: the two commands of the runtime API, with its key',
    'v1',
    async () => {
      for (const command of [[agentServer], ['/agent-server/.venv/bin/python', '-m', 'openhands.agent_server']]) {
        const options = { options: ['--entrypoint='], environment: { OH_SESSION_API_KEYS_0: 'test-key' } };
        await withContainer(
          'v1',
          { ...options, command: (port) => [...command, '--port', `${port}`] },
          async (container) => {
            assert.ok('detail' in (await container.bash('true')));
            container.headers['x-session-api-key'] = 'test-key';
            assert.equal((await container.bash('echo opened')).content, 'opened');
          },
        );
      }
    },
  ],
];

async function showSize(tag) {
  const bytes = Number(await docker('image', 'inspect', '-f', '{{.Size}}', `actiond-test/${tag}`));
  const layers = (await docker('history', '--no-trunc', '--format', '{{.Size}}\t{{.CreatedBy}}', `actiond-test/${tag}`))
    .split('\n')
    .filter((line) => /^[1-9][\d.]*MB/.test(line))
    .map((line) =>
      line
        .replace(/\|\d+ .*?\/bin\/sh -c/, '')
        .replaceAll(/\s+/g, ' ')
        .slice(0, 90),
    );
  console.log(`${tag}: ${(bytes / 1e6).toFixed(0)} MB\n  ${layers.join('\n  ')}`);
}

async function main() {
  const tally = { passed: 0, failed: 0, skipped: 0 };
  const count = (verdict, name, detail) => {
    tally[verdict] += 1;
    console.log(`${verdict.padEnd(7)} ${name}${detail ? `: ${detail}` : ''}`);
  };
  const reason = process.argv[2] === '--skip-all' ? process.argv[3] : undefined;
  const built = new Set();
  for (const tag of TAGS) {
    if (reason === undefined && (await imageExists(tag))) built.add(tag);
    count(reason === undefined ? (built.has(tag) ? 'passed' : 'failed') : 'skipped', `image ${tag} is built`);
  }
  for (const [name, tag, check] of CHECKS) {
    const title = `${tag}: ${name}`;
    if (reason !== undefined) count('skipped', title, reason);
    else if (!built.has(tag)) count('failed', title, 'the image is missing');
    else
      await check().then(
        (detail) => count('passed', title, detail),
        (error) =>
          error instanceof Skip ? count('skipped', title, error.message) : count('failed', title, error.message),
      );
  }
  for (const tag of built) await showSize(tag);
  console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
  process.exitCode = tally.failed === 0 ? 0 : 1;
}

await main();
