import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

/** Repository path to text. */
type Sources = ReadonlyMap<string, string>;

interface Layer {
  /** Which files; the first layer that matches is the file's own. */
  readonly files: RegExp;
  /** What they may import: `src/…`, `routes/…`, `executors/…` (repository paths), `node:…` or `npm:…`. */
  readonly mayImport: readonly RegExp[];
}

const BUILT_IN = /^node:/;
const PACKAGE = /^npm:/;
const PROTOCOL = /^src\/protocol\//;

const LAYERS: readonly Layer[] = [
  { files: /^src\/protocol\//, mayImport: [/^npm:zod$/, PROTOCOL] },
  { files: /^src\/util\//, mayImport: [BUILT_IN] },
  {
    files: /^src\/dispatch\//,
    mayImport: [
      /^node:(?!https?$|http2$|net$|tls$)/,
      /^npm:(?!fastify|@fastify\/|ws$|node-pty|playwright)/,
      /^src\/(?!(main|server|app|config|argv|openapi)\b)/,
    ],
  },
  { files: /^src\/openapi\.ts$/, mayImport: [/^npm:zod$/, PROTOCOL] },
  { files: /^src\/openapi-cli\.ts$/, mayImport: [BUILT_IN, /^npm:yaml$/, /^src\/(openapi|version)\.ts$/, PROTOCOL] },
  { files: /^src\/(one-file\/)?main\.ts$/, mayImport: [BUILT_IN, PACKAGE, /^(src|routes|executors)\//] },
  { files: /^src\/server\.ts$/, mayImport: [BUILT_IN, PACKAGE, /^src\/(?!main\b)/, /^(routes|executors)\//] },
  { files: /^src\//, mayImport: [BUILT_IN, PACKAGE, /^src\/(?!(main|server)\b)/] },
  { files: /^executors\/index\.ts$/, mayImport: [/^src\/(dispatch|protocol|util)\//, /^executors\//] },
  {
    // Options come by argument; events are the dispatcher's. The own folder is added per file.
    files: /^executors\//,
    mayImport: [
      BUILT_IN,
      /^npm:(?!fastify|@fastify\/)/,
      /^src\/(dispatch|protocol|sandbox|telemetry|util)\//,
      /^src\/(errors|version)\.ts$/,
    ],
  },
  {
    files: /^routes\//,
    mayImport: [BUILT_IN, /^npm:(?!node-pty|playwright)/, /^src\/(?!(main|server|config|argv)\b)/, /^routes\//],
  },
];

/** What only the named files may contain. */
const RESERVED: readonly { readonly what: string; readonly text: RegExp; readonly files: RegExp }[] = [
  {
    what: 'process.env',
    text: /\bprocess\s*(\??\.\s*env\b|\[\s*['"`]env)|\benv\b[^{}]*\}\s*=\s*process\b|\b(from|import|require)\s*\(?\s*['"](node:)?process['"]/,
    files: /^src\/(main|one-file\/places)\.ts$/,
  },
  {
    what: 'process.exit',
    text: /\bprocess\s*(\??\.\s*(exit|reallyExit|abort)\b|\[\s*['"`]exit)|\bexit\b[^{}]*\}\s*=\s*process\b/,
    files: /^src\/((one-file\/)?main|openapi-cli)\.ts$/,
  },
  { what: 'module state', text: /^(export )?(let|var)\b/m, files: /^$/ },
  { what: 'work at import time', text: /^await\b|^(const|export const)\b[^=]*=\s*await\b/m, files: /^src\/main\.ts$/ },
];

const IMPORT_PATTERNS: readonly RegExp[] = [
  /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
  /^\s*import\s*['"]([^'"]+)['"]/gm,
  /\b(?:import|require)\s*\(\s*['"`]([^'"`]+)['"`]/g,
];

/** Comments that begin a line, which are all that our formatter's house style has; strings stay whole. */
function withoutComments(text: string): string {
  return text.replaceAll(/^[ \t]*\/\*[\s\S]*?\*\//gm, '').replaceAll(/^[ \t]*\/\/.*$/gm, '');
}

/** The imports of a file, static, dynamic and of types, in the spelling of {@link Layer.mayImport}. */
function importsOf(file: string, text: string): string[] {
  const code = withoutComments(text);
  const specifiers = IMPORT_PATTERNS.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1] ?? ''));
  return specifiers.map((specifier) => {
    if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(file), specifier);
    return specifier.startsWith('node:') ? specifier : `npm:${specifier}`;
  });
}

function mayImport(file: string, target: string): boolean {
  const layer = LAYERS.find(({ files }) => files.test(file));
  const ownFolder = /^executors\/[^/]+\//.exec(file)?.[0];
  if (ownFolder !== undefined && target.startsWith(ownFolder)) return true;
  return layer?.mayImport.some((pattern) => pattern.test(target)) ?? false;
}

function findForbiddenImports(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) =>
    importsOf(file, text)
      .filter((target) => !mayImport(file, target))
      .map((target) => `${file} imports ${target}`),
  );
}

function findReserved(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    const code = withoutComments(text);
    return RESERVED.filter((entry) => entry.text.test(code) && !entry.files.test(file)).map(
      ({ what }) => `${file} has ${what}`,
    );
  });
}

/** Each cycle once, as `a -> b -> a`. */
function findCycles(sources: Sources): string[] {
  const cycles: string[] = [];
  const finished = new Set<string>();
  const visit = (file: string, trail: readonly string[]): void => {
    const start = trail.indexOf(file);
    if (start !== -1) cycles.push([...trail.slice(start), file].join(' -> '));
    if (start !== -1 || finished.has(file)) return;
    for (const target of importsOf(file, sources.get(file) ?? '')) {
      if (sources.has(target)) visit(target, [...trail, file]);
    }
    finished.add(file);
  };
  for (const file of sources.keys()) visit(file, []);
  return cycles;
}

function check(sources: Sources): string[] {
  return [
    ...findForbiddenImports(sources),
    ...findReserved(sources),
    ...findCycles(sources).map((cycle) => `cycle: ${cycle}`),
  ];
}

function readSources(): Sources {
  const root = path.resolve(import.meta.dirname, '..');
  const files = ['src', 'routes', 'executors'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => path.posix.join(folder, name)),
  );
  return new Map(files.map((file) => [file, readFileSync(path.join(root, file), 'utf8')]));
}

test('the sources keep to their layers', () => {
  const sources = readSources();
  expect(sources.size).toBeGreaterThan(0);
  expect(check(sources)).toEqual([]);
});

test.each([
  ['src/protocol/a.ts', "import { readFile } from 'node:fs';", 'imports node:fs'],
  ['src/protocol/a.ts', "export type { A } from '../errors.ts';", 'imports src/errors.ts'],
  ['src/util/a.ts', "import { z } from 'zod';", 'imports npm:zod'],
  ['src/util/a.ts', "import { b } from './b.ts';", 'imports src/util/b.ts'],
  ['src/events/a.ts', "const m = await import('../../executors/bash/shell.ts');", 'imports executors/bash/shell.ts'],
  ['src/app.ts', "import { alive } from '../routes/alive.get.ts';", 'imports routes/alive.get.ts'],
  ['src/openapi.ts', "import { Server } from './server.ts';", 'imports src/server.ts'],
  ['src/dispatch/a.ts', "import type { FastifyReply } from 'fastify';", 'imports npm:fastify'],
  ['src/dispatch/a.ts', "import http from 'node:http';", 'imports node:http'],
  [
    'src/dispatch/a.ts',
    "import {\n  type A,\n  b,\n} from '../../executors/bash/a.ts';",
    'imports executors/bash/a.ts',
  ],
  ['executors/bash/a.ts', "import { b } from '../files/b.ts';", 'imports executors/files/b.ts'],
  ['executors/bash/a.ts', "import type { Config } from '../../src/config.ts';", 'imports src/config.ts'],
  [
    'executors/bash/a.ts',
    "import { EventLog } from '../../src/events/event-log.ts';",
    'imports src/events/event-log.ts',
  ],
  ['executors/bash/a.ts', "import 'fastify';", 'imports npm:fastify'],
  ['executors/bash/a.ts', "import { a } from '../../routes/alive.get.ts';", 'imports routes/alive.get.ts'],
  ['routes/a.get.ts', "type Pty = typeof import('node-pty');", 'imports npm:node-pty'],
  ['routes/a.get.ts', "import { chromium } from 'playwright-core';", 'imports npm:playwright-core'],
  [
    'routes/a.get.ts',
    "import { BashExecutor } from '../executors/bash/executor.ts';",
    'imports executors/bash/executor.ts',
  ],
  ['lib/a.ts', "import fs from 'node:fs';", 'imports node:fs'],
  ['src/config.ts', 'export const home = process.env.HOME;', 'has process.env'],
  ['src/config.ts', 'const { env } = process;', 'has process.env'],
  ['src/config.ts', "import { env } from 'node:process';", 'has process.env'],
  ['routes/a.get.ts', 'process.exit(1);', 'has process.exit'],
  ['src/a.ts', 'let count = 0;', 'has module state'],
  ['src/a.ts', "const port = await read('port');", 'has work at import time'],
])('%s is caught: %s', (file, text, problem) => {
  expect(check(new Map([[file, text]]))).toContain(`${file} ${problem}`);
});

test('a cycle is caught, and named once', () => {
  const sources = new Map([
    ['src/a.ts', "import { b } from './b.ts';"],
    ['src/b.ts', "import type { C } from './c.ts';"],
    ['src/c.ts', "export * from './a.ts';"],
  ]);
  expect(check(sources)).toEqual(['cycle: src/a.ts -> src/b.ts -> src/c.ts -> src/a.ts']);
});

test('what the layers allow passes, and comments do not count', () => {
  const sources = new Map([
    ['src/protocol/a.ts', "// import fs from 'node:fs';\nimport { z } from 'zod';"],
    ['src/main.ts', "import { Server } from './server.ts';\nprocess.exit(run(process.env));"],
    ['src/server.ts', "import { BashExecutor } from '../executors/bash/executor.ts';"],
    ['executors/bash/executor.ts', "/** Not process.env. */\nimport { shell } from './shell.ts';\nimport 'node-pty';"],
    ['executors/index.ts', "export { BashExecutor } from './bash/executor.ts';"],
    ['routes/a.get.ts', "import type { FastifyInstance } from 'fastify';"],
  ]);
  expect(check(sources)).toEqual([]);
});
