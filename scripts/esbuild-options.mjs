// What the builds of the daemon have in common.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** Packages with a native addon, or with files that they look for beside themselves: they stay in node_modules. */
export const EXTERNAL = ['node-pty', 'playwright-core'];

/** Non-TypeScript files that the code reads beside itself; `executors/bash/x.sh` becomes `dist/executors/bash/x.sh`. */
const ASSET_FOLDERS = ['src', 'routes', 'executors'];
const CODE_FILE = /\.(ts|mts|cts|js|md)$/;
/** Threads of their own, with all that they import. */
const WORKER_FILE = /-worker\.mjs$/;

/** CommonJS dependencies expect these three. esbuild does not rename around a banner: do not declare them in src/. */
export const COMMONJS_SHIM = [
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

export const trimDependencies = {
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

/** Options of esbuild that every build has. */
export const common = {
  absWorkingDir: root,
  write: false,
  bundle: true,
  platform: 'node',
  plugins: [trimDependencies],
  define: { __ACTIOND_VERSION__: JSON.stringify(readVersion()) },
  minifyWhitespace: true,
  minifySyntax: true,
  sourcesContent: false,
  logLevel: 'warning',
};

export function listFiles(folder) {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name));
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

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
      contents: WORKER_FILE.test(file) ? bundleWorker(file) : readFileSync(file),
      mode: statSync(file).mode,
    }));
}

function bundleWorker(file) {
  const { outputFiles } = buildSync({
    ...common,
    plugins: [],
    entryPoints: [file],
    format: 'esm',
    target: 'node20.19',
    banner: { js: COMMONJS_SHIM },
    legalComments: 'eof',
  });
  return Buffer.from(outputFiles[0].contents);
}

/** What the code reads beside itself, and what the file viewer hands to the browser in the folders that pdf.js itself has. */
export function readShippedFiles(outdir) {
  return [...readAssets(outdir), ...readPdfjs(outdir)];
}
