import { access as allowed, constants } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { FileAccess } from '../../../src/sandbox/file-access.ts';
import { codeOf, OutsideRootsError, pythonText } from '../../../src/sandbox/file-faults.ts';
import type { CallArgs } from '../calls.ts';
import { ActionFault } from '../fault.ts';
import { ELEMENT_LIMIT_MS } from '../limits.ts';
import type { Scope } from '../scope.ts';
import { locate } from './locate.ts';

export async function fill(scope: Scope, { bid, value }: CallArgs<'fill'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.fill(value, { timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

export async function clear(scope: Scope, { bid }: CallArgs<'clear'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.clear({ timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

export async function focus(scope: Scope, { bid }: CallArgs<'focus'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.focus({ timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

/** Focuses the element and presses a combination such as `Control+a`. */
export async function press(scope: Scope, { bid, key_comb: keys }: CallArgs<'press'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.press(keys, { timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

/** By values or labels. */
export async function selectOption(scope: Scope, { bid, options }: CallArgs<'select_option'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.selectOption(options, { timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

/** Clicks what opens a file chooser, and chooses. */
export async function uploadFile(scope: Scope, { bid, file }: CallArgs<'upload_file'>): Promise<void> {
  const paths = [file].flat().map((path) => resolve(scope.workingDir, path));
  for (const path of paths) await requireFile(scope.access, path);
  const element = await locate(scope, bid);
  const timeout = scope.deadline.left(ELEMENT_LIMIT_MS);
  const opened = scope.tab.page.waitForEvent('filechooser', { timeout });
  opened.catch(() => {});
  await element.click({ timeout });
  const chooser = await opened.catch(() => {
    throw new ActionFault(
      'TimeoutError',
      `upload_file: a click on "${bid}" opens no file chooser. Use the bid of the file input or of its button.`,
    );
  });
  await chooser.setFiles(paths, { timeout: scope.deadline.left(ELEMENT_LIMIT_MS * 2) });
}

/** As the account of the browser sees it: what it must not see has no existence to tell of. */
async function requireFile(access: FileAccess, path: string): Promise<void> {
  try {
    await using pin = await access.pin(path);
    access.require(pin, 'read', path);
    await allowed(pin.link, constants.R_OK);
  } catch (error) {
    const isForbidden = error instanceof OutsideRootsError || codeOf(error) === 'EACCES';
    if (isForbidden) throw new ActionFault('PermissionError', `upload_file: ${pythonText(error, path)}`);
    throw new ActionFault('ValueError', `upload_file: there is no file ${path}`);
  }
}
