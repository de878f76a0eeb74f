import { readFileSync, writeFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { buildOpenApi } from './openapi.ts';
import { VERSION } from './version.ts';

const USAGE = 'usage: openapi.js [--check] FILE';

process.exitCode = runOpenApiCli(process.argv.slice(2));

/** Writes the document as YAML, or with `--check` compares. @returns the exit status: 1 the file differs, 2 wrong usage */
function runOpenApiCli(args: readonly string[]): number {
  const isCheck = args.includes('--check');
  const [file, ...others] = args.filter((arg) => arg !== '--check');
  if (file === undefined || file.startsWith('-') || others.length > 0) {
    console.error(USAGE);
    return 2;
  }
  const text = openApiYaml(VERSION);
  if (!isCheck) {
    writeFileSync(file, text);
    return 0;
  }
  if (readIfThere(file) === text) return 0;
  console.error(`${file} is not what the schemas say: run npm run openapi and commit it.`);
  return 1;
}

/** The text of `openapi.yaml`. */
function openApiYaml(version: string): string {
  const heading = '# Generated from src/protocol/ by npm run openapi; do not edit.\n';
  return heading + stringify(buildOpenApi(version), { lineWidth: 120, aliasDuplicateObjects: false });
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
