// Compiles node-pty's addon so that it loads with an older C library than that of this machine.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../esbuild-options.mjs';

/** Of Ubuntu 20.04 and Debian 11; Node's own binary wants 2.28. */
export const OLDEST_GLIBC = '2.31';

/** Packages that only the executable needs: not in the daemon's own, because one of them is a `node` of its own. */
export const TOOLS = path.join(import.meta.dirname, 'node_modules');

const modules = path.join(root, 'node_modules');

const FLAGS = ['-shared', '-fPIC', '-O2', '-std=c++17', '-fvisibility=hidden', '-s'];

/** @returns the bytes of pty.node */
export function buildAddon(workDir) {
  const output = path.join(workDir, 'pty.node');
  const headers = [path.join(TOOLS, 'node-api-headers/include'), path.join(modules, 'node-addon-api')];
  const defines = ['NAPI_CPP_EXCEPTIONS', 'NODE_GYP_MODULE_NAME=pty', 'BUILDING_NODE_EXTENSION'].map(
    (name) => `-D${name}`,
  );
  // Both libraries are empty in newer C libraries: linked all the same, because older ones have the symbols there.
  const libraries = ['-Wl,--no-as-needed', '-l:libutil.so.1', '-l:libpthread.so.0', '-Wl,--as-needed'];
  execFileSync(
    'g++',
    [
      ...FLAGS,
      '-include',
      path.join(import.meta.dirname, 'old-glibc.h'),
      ...headers.map((directory) => `-I${directory}`),
      ...defines,
      path.join(modules, 'node-pty/src/unix/pty.cc'),
      '-o',
      output,
      ...libraries,
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  refuseNewSymbols(output);
  return readFileSync(output);
}

function refuseNewSymbols(file) {
  const table = execFileSync('objdump', ['-T', file], { encoding: 'utf8' });
  const tooNew = table.split('\n').filter((line) => {
    const [, version] = /\(?GLIBC_([\d.]+)\)?/.exec(line) ?? [];
    return version !== undefined && isNewer(version, OLDEST_GLIBC);
  });
  if (tooNew.length === 0) return;
  throw new Error(`The addon wants a C library newer than ${OLDEST_GLIBC}; add to old-glibc.h:\n${tooNew.join('\n')}`);
}

function isNewer(version, limit) {
  const [a, b] = [version, limit].map((text) => text.split('.').map(Number));
  for (let index = 0; index < 3; index += 1) {
    const difference = (a[index] ?? 0) - (b[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}
