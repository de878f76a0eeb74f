// Bundles the daemon into dist/: one file for each entry point, and a chunk for every part that is loaded lazily.
//
// One bundled file is read and compiled several times faster than a few hundred modules out of node_modules, and that
// is most of what start-up costs. Exits with 1 on any error and leaves dist/ as it was.
//
//   node scripts/build.mjs [--outdir DIR] [--metafile FILE]

import { chmodSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { common, COMMONJS_SHIM, EXTERNAL, listFiles, readShippedFiles, root } from './esbuild-options.mjs';

/** A server of the build before may still load a lazy chunk of its own, so chunks go only when they are this old. */
const STALE_CHUNK_MS = 24 * 60 * 60 * 1000;

function bundle(outdir) {
  return build({
    ...common,
    entryPoints: { main: 'src/main.ts', openapi: 'src/openapi-cli.ts' },
    outdir,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    format: 'esm',
    target: 'node20.19',
    external: EXTERNAL,
    banner: { js: COMMONJS_SHIM },
    sourcemap: 'linked',
    legalComments: 'linked',
    metafile: true,
  });
}

/** Replaces by rename, so that a server that starts meanwhile reads a whole file. */
function writeOutput({ path: file, contents, mode }) {
  mkdirSync(path.dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, contents);
  if (mode !== undefined) chmodSync(temporary, mode);
  renameSync(temporary, file);
}

function removeStale(outdir, kept) {
  const oldest = Date.now() - STALE_CHUNK_MS;
  for (const file of listFiles(path.join(outdir, 'chunks'))) {
    if (!kept.has(file) && statSync(file).mtimeMs < oldest) rmSync(file);
  }
}

async function main() {
  const { values: options } = parseArgs({
    options: { outdir: { type: 'string', default: path.join(root, 'dist') }, metafile: { type: 'string' } },
  });
  const outdir = path.resolve(options.outdir);
  const result = await bundle(outdir);
  const outputs = [...result.outputFiles, ...readShippedFiles(outdir)];
  // Chunks first: an entry point must not be there before what it imports.
  const isEntry = (file) => path.dirname(file) === outdir;
  outputs.sort((a, b) => Number(isEntry(a.path)) - Number(isEntry(b.path)));
  for (const output of outputs) writeOutput(output);
  chmodSync(path.join(outdir, 'main.js'), 0o755);
  removeStale(outdir, new Set(outputs.map((output) => output.path)));
  if (options.metafile) writeFileSync(options.metafile, JSON.stringify(result.metafile));
}

try {
  await main();
} catch (error) {
  // esbuild has printed its own errors, with the lines they are in.
  if (!Array.isArray(error?.errors)) console.error(error);
  process.exitCode = 1;
}
