import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { buildOpenApi } from '../src/openapi.ts';
import { parseAction } from '../src/protocol/actions.ts';
import { ROUTES } from '../src/protocol/routes.ts';
import { VERSION } from '../src/version.ts';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly security: readonly object[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}

interface Document {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, { readonly required?: readonly string[] }>> };
}

const YAML_PATH = new URL('../openapi.yaml', import.meta.url).pathname;
// Through JSON, as it is served.
const document = JSON.parse(JSON.stringify(buildOpenApi(VERSION))) as Document;
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
);

test('openapi.yaml is what the schemas say', async () => {
  expect(parse(await readFile(YAML_PATH, 'utf8'))).toEqual(document);
});

test('is OpenAPI 3.1 of this version', () => {
  expect(document).toMatchObject({ openapi: '3.1.0', info: { title: 'actiond', version: VERSION } });
});

test('every reference resolves, and every component is referred to', () => {
  const refs = new Set(refsIn(document));
  const names = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
  expect([...refs].toSorted()).toEqual(names.toSorted());
});

test('has every route of the table and no other', () => {
  const inTable = ROUTES.map(({ method, path }) => `${method} ${path}`);
  expect(operations.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(inTable.toSorted());
});

test('operation ids are unique', () => {
  const ids = operations.map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
});

test.each(operations)('$method $path is well formed', ({ path, operation }) => {
  expect(operation.operationId).toMatch(/^[a-z]\w+$/);
  expect(operation.summary).not.toBe('');
  const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path' && parameter.required);
  expect(declared.map(({ name }) => name)).toEqual(Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name));
  const statuses = Object.keys(operation.responses);
  expect(statuses).toContain('200');
  expect(statuses.every((status) => /^[2-5]\d\d$/.test(status))).toBe(true);
  expect(Object.values(operation.responses).every(({ description }) => description.length > 0)).toBe(true);
});

test('only probes are open', () => {
  const open = operations.filter(({ operation }) => operation.security.length === 0).map(({ path }) => path);
  expect(open).toEqual(['/alive', '/health', '/ready', '/server_info']);
});

test('schemas have their own direction: defaults are optional in requests and present in replies', () => {
  const { schemas } = document.components;
  expect(schemas['RunArgs']?.required).toEqual(['command']);
  expect(schemas['RunMetadata']?.required).toContain('exit_code');
  expect(schemas['RunExtras']).toMatchObject({ additionalProperties: false });
  expect(schemas['ServerInfoReply']).not.toHaveProperty('additionalProperties');
});

test('examples are accepted', () => {
  const requests = ROUTES.flatMap(({ request }) =>
    Object.values(request?.examples ?? {}).map(({ value }) => [request, value] as const),
  );
  const replies = ROUTES.flatMap(({ replies: all }) =>
    Object.values(all).flatMap((reply) =>
      Object.values(reply.examples ?? {}).map(({ value }) => [reply, value] as const),
    ),
  );
  for (const [spec, value] of [...requests, ...replies])
    expect(spec?.schema?.safeParse(value)).toMatchObject({ success: true });
  for (const [, value] of requests) {
    if (typeof value === 'object' && value !== null && 'action' in value) {
      expect(parseAction(value.action)).toMatchObject({ ok: true, unknownArgs: [] });
    }
  }
});

describe('the command line', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'actiond-openapi-'));
    await build({
      entryPoints: [new URL('../src/openapi-cli.ts', import.meta.url).pathname],
      outfile: join(folder, 'openapi.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      define: { __ACTIOND_VERSION__: JSON.stringify(VERSION) },
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
  });
  afterAll(() => rm(folder, { recursive: true }));

  test('writes openapi.yaml, byte for byte', async () => {
    const file = join(folder, 'written.yaml');
    expect(await run(file)).toMatchObject({ status: 0 });
    expect(await readFile(file, 'utf8')).toBe(await readFile(YAML_PATH, 'utf8'));
  });

  test('--check accepts the same', async () => {
    const file = join(folder, 'same.yaml');
    await cp(YAML_PATH, file);
    expect(await run('--check', file)).toEqual({ status: 0, stderr: '' });
  });

  test('--check refuses another, or none', async () => {
    const file = join(folder, 'other.yaml');
    await writeFile(file, 'openapi: 3.1.0\n');
    expect(await run('--check', file)).toEqual({ status: 1, stderr: expect.stringContaining('npm run openapi') });
    expect(await run('--check', join(folder, 'none.yaml'))).toMatchObject({ status: 1 });
    expect(await readFile(file, 'utf8')).toBe('openapi: 3.1.0\n');
  });

  test.each([[[]], [['--odd', 'a']], [['a', 'b']]])('refuses the arguments %j', async (args) => {
    expect(await run(...args)).toEqual({ status: 2, stderr: expect.stringContaining('usage') });
  });

  async function run(...args: string[]): Promise<{ status: number; stderr: string }> {
    try {
      const { stderr } = await promisify(execFile)(process.execPath, [join(folder, 'openapi.mjs'), ...args]);
      return { status: 0, stderr };
    } catch (error) {
      const { code, stderr } = error as { code: number; stderr: string };
      return { status: code, stderr };
    }
  }
});

function refsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    key === '$ref' && typeof item === 'string' ? [item] : refsIn(item),
  );
}
