import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as { version: string };

export default defineConfig({
  define: { __ACTIOND_VERSION__: JSON.stringify(version) },
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    // Shells, kernels and browsers do the work, and much is waiting: three files at once is what a two-core machine bears.
    maxWorkers: 3,
    // Real processes on a machine that others use: in CI a second attempt, which the last lines name.
    retry: process.env['CI'] === undefined ? 0 : 1,
    // A test that hangs ends; how fast anything is belongs in bench/.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ['default', './test/support/closing-line-reporter.ts'],
  },
});
