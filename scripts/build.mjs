// Bundles the daemon into dist/: one file for each entry point, and a chunk for every part that is loaded lazily.
//
// One bundled file is read and compiled several times faster than a few hundred modules out of node_modules, and that
// is most of what start-up costs. Exits with 1 on any error and leaves dist/ as it was.
//
//   node scripts/build.mjs [--outdir DIR] [--metafile FILE]

import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Packages with a native addon, or with files that they look for beside themselves: they stay in node_modules. */
const EXTERNAL = ['node-pty', 'playwright-core'];

/** Non-TypeScript files that the code reads beside itself; `executors/bash/x.sh` becomes `dist/executors/bash/x.sh`. */
const ASSET_FOLDERS = ['src', 'routes', 'executors'];
const CODE_FILE = /\.(ts|mts|cts|js|md)$/;

/** A server of the build before may still load a lazy chunk of its own, so chunks go only when they are this old. */
const STALE_CHUNK_MS = 24 * 60 * 60 * 1000;

/** CommonJS dependencies expect these three. esbuild does not rename around a banner: do not declare them in src/. */
const COMMONJS_SHIM = [
  "import { createRequire as actiondCreateRequire } from 'node:module';",
  'const require = actiondCreateRequire(import.meta.url);',
  'const __filename = import.meta.filename, __dirname = import.meta.dirname;',
].join('');

/** What dependencies would load, or carry, at every start although the daemon never uses it. */
const TRIMMED = [
  {
    // 50 languages of validation messages; English is the one in force.
    module: /locales\/index\.js$/,
    importer: /\/node_modules\/zod\//,
    contents: "export { default as en } from './en.js';",
  },
  {
    // Log transports run in a worker thread that needs files of its own; we log to a descriptor.
    module: /\/transport(\.js)?$/,
    importer: /\/node_modules\/pino\//,
    contents: "module.exports = () => { throw new Error('pino transports are not in the bundle'); };",
  },
  {
    // Validation and serialization are zod's. Fastify asks for a compiler at start, and calls it only without ours.
    module: /^@fastify\/(ajv|fast-json-stringify)-compiler$/,
    importer: /\/node_modules\/fastify\//,
    contents: `module.exports = () => () => { throw new Error('JSON schema compilers are not in the bundle'); };
      module.exports.StandaloneValidator = module.exports.StandaloneSerializer = module.exports;`,
  },
  {
    // We serve plain HTTP/1.1; TLS and HTTP/2 cost 10 ms to load.
    module: /^node:(https|http2)$/,
    importer: /\/node_modules\/fastify\/lib\/server\.js$/,
    contents: 'module.exports = {};',
  },
];

const trimDependencies = {
  name: 'trim-dependencies',
  setup(esbuild) {
    TRIMMED.forEach(({ module, importer, contents }, index) => {
      const namespace = `trimmed-${index}`;
      esbuild.onResolve({ filter: module }, (args) => {
        if (!importer.test(args.importer)) return;
        return { path: args.path.startsWith('.') ? path.resolve(args.resolveDir, args.path) : args.path, namespace };
      });
      esbuild.onLoad({ filter: /./, namespace }, (args) => ({ contents, resolveDir: path.dirname(args.path) }));
    });
  },
};

function readVersion() {
  return JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version;
}

function bundle(outdir) {
  return build({
    absWorkingDir: root,
    entryPoints: { main: 'src/main.ts', openapi: 'src/openapi-cli.ts' },
    outdir,
    write: false,
    bundle: true,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: EXTERNAL,
    plugins: [trimDependencies],
    banner: { js: COMMONJS_SHIM },
    define: { __ACTIOND_VERSION__: JSON.stringify(readVersion()) },
    minifyWhitespace: true,
    minifySyntax: true,
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'linked',
    metafile: true,
    logLevel: 'warning',
  });
}

function listFiles(folder) {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name));
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/** What the file viewer hands to the browser, in the folders that pdf.js itself has. */
function readPdfjs(outdir) {
  const from = path.join(root, 'node_modules/pdfjs-dist');
  const scripts = ['pdf.min.mjs', 'pdf.worker.min.mjs'].map((name) => path.join(from, 'legacy/build', name));
  const folders = ['cmaps', 'standard_fonts', 'wasm', 'iccs'].flatMap((name) => listFiles(path.join(from, name)));
  return [...scripts, path.join(from, 'LICENSE'), ...folders].map((file) => ({
    path: path.join(outdir, 'pdfjs', path.relative(from, file)),
    contents: readFileSync(file),
    mode: 0o644,
  }));
}

function readAssets(outdir) {
  return ASSET_FOLDERS.flatMap((folder) => listFiles(path.join(root, folder)))
    .filter((file) => !CODE_FILE.test(file))
    .map((file) => ({
      path: path.join(outdir, path.relative(root, file)),
      contents: readFileSync(file),
      mode: statSync(file).mode,
    }));
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
  const outputs = [...result.outputFiles, ...readAssets(outdir), ...readPdfjs(outdir)];
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
