import { ActionFault } from './fault.ts';

const OPENED = ['http', 'https', 'file', 'data', 'about', 'blob'];
const HOST_ONLY =
  /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:.]+\]|[a-z\d](?:[a-z\d-]*[a-z\d])?(?:\.[a-z\d-]+)*)(?::\d+)?(?:[/?#]|$)/i;
const LOCAL_HOST = /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[)|^[^/?#]*:\d/i;
const SCHEME = /^([a-z][a-z\d+.-]*):(?!\d+(?:[/?#]|$))/i;

/**
 * An address as an agent wrote it as one that can be opened: a host alone gets a scheme, an absolute path becomes a `file:` address.
 * @throws ActionFault ValueError
 */
export function toAddress(text: string): string {
  const url = text.trim();
  if (url === '') throw new ActionFault('ValueError', 'The address is empty: give one such as http://localhost:8000.');
  const scheme = /^javascript:/i.test(url) ? 'javascript' : SCHEME.exec(url)?.[1]?.toLowerCase();
  if (scheme !== undefined) return checked(url, scheme);
  if (url.startsWith('/')) return checked(`file://${encodeURI(url)}`, 'file');
  if (!HOST_ONLY.test(url))
    throw new ActionFault('ValueError', `${quoted(text)} is no address: give one such as http://localhost:8000/page.`);
  return checked(`${LOCAL_HOST.test(url) ? 'http' : 'https'}://${url}`, 'http');
}

function checked(url: string, scheme: string): string {
  if (scheme === 'javascript')
    throw new ActionFault(
      'ValueError',
      'javascript: addresses are not opened. Use click, fill and the other functions on the elements of the page.',
    );
  if (!OPENED.includes(scheme))
    throw new ActionFault(
      'ValueError',
      `${scheme}: addresses are not opened; ${OPENED.map((name) => `${name}:`).join(', ')} are.`,
    );
  if (scheme === 'about' && !/^about:(?:blank|srcdoc)\b/i.test(url))
    throw new ActionFault('ValueError', `${quoted(url)} is not opened: of the about: pages there is only about:blank.`);
  if (!URL.canParse(url)) throw new ActionFault('ValueError', `${quoted(url)} is no valid address.`);
  return url;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
