/** `npm run manifests:check` finds what a cluster would refuse. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const REPOSITORY = join(import.meta.dirname, '..');
const CHECK = ['scripts/check-manifests.sh'];
const folder = (name: string): string => join(REPOSITORY, 'deploy/kubernetes', name);
const STATEFUL_SET = folder('statefulset.yaml');
const SANDBOX = folder('agent-sandbox/sandbox.yaml');

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'actiond-manifests-'));
  // Installs the checker where it is not there yet.
  execFileSync('sh', CHECK, { cwd: REPOSITORY, stdio: 'pipe' });
}, 300_000);
afterAll(() => rmSync(scratch, { recursive: true }));

test.each([
  [STATEFUL_SET, 'readOnlyRootFilesystem:', 'readOnlyRootFilesytem:', 'readOnlyRootFilesytem'],
  [STATEFUL_SET, 'storage: 4Gi', 'storage: 4Gx', '4Gx is no amount'],
  [STATEFUL_SET, 'path: /ready, port: http', 'path: /ready, port: htpp', 'port of a probe: htpp'],
  [STATEFUL_SET, 'name: tmp, mountPath', 'name: temp, mountPath', 'volumeMounts: temp'],
  [STATEFUL_SET, 'serviceName: actiond', 'serviceName: other', 'serviceName: other'],
  [
    STATEFUL_SET,
    'matchLabels:\n      app.kubernetes.io/name: actiond',
    'matchLabels:\n      app: x',
    'no label app: x',
  ],
  [SANDBOX, 'ReadWriteOnce', 'ReadWriteOne', 'accessModes: ReadWriteOne'],
  [SANDBOX, 'name: shm, mountPath', 'name: shared, mountPath', 'volumeMounts: shared'],
  [folder('networkpolicy.yaml'), 'protocol: UDP', 'protocol: UPD', 'protocol: UPD'],
])('%s with a mistake: %s → %s', (file, right, wrong, told) => {
  const text = readFileSync(file, 'utf8');
  expect(text).toContain(right);
  const changed = join(scratch, 'changed.yaml');
  writeFileSync(changed, text.replace(right, wrong));
  const { status, stdout } = spawnSync('sh', [...CHECK, changed, folder('service.yaml')], {
    cwd: REPOSITORY,
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  expect(stdout).toMatch(/^WRONG .*changed\.yaml/m);
  expect(stdout).toContain(told);
});
