/**
 * Imports a module that is not part of the daemon. The one-file executable brings its own version of this, because code inside it
 * can import nothing but built-in modules.
 *
 * @param url of a file
 */
export function importModule(url: string): Promise<unknown> {
  return import(url);
}
