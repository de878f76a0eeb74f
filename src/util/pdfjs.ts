import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The files of pdf.js: beside the bundle, or in node_modules. */
export function pdfjsDirectory(): string | undefined {
  const beside = ['pdfjs', '../pdfjs'].map((name) => join(import.meta.dirname, name)).find((path) => existsSync(path));
  if (beside !== undefined) return beside;
  try {
    return dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json'));
  } catch {
    return undefined;
  }
}
