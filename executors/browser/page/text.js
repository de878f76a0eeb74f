/** Stands where the text of a frame belongs, with the id of its element between. */
export const FRAME_MARK = '\u{E000}';
/**
 * The document as text, in the form of html2text without line wrapping (V0 §8.4): headings, lists, links, tables, code; images by their
 * alternative text. Runs inside the page, in a world of its own.
 */
export function pageText({ maxChars, frameMark }) {
  const skipped = new Set([
    'script',
    'style',
    'head',
    'noscript',
    'template',
    'svg',
    'input',
    'object',
    'video',
    'audio',
  ]);
  const blocks = new Set([
    'address',
    'article',
    'aside',
    'blockquote',
    'body',
    'details',
    'dialog',
    'dd',
    'div',
    'dl',
    'dt',
    'fieldset',
    'figcaption',
    'figure',
    'footer',
    'form',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'header',
    'hr',
    'li',
    'main',
    'nav',
    'ol',
    'option',
    'p',
    'pre',
    'section',
    'summary',
    'table',
    'tr',
    'ul',
    'caption',
  ]);
  const spaced = new Set([
    'p',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'blockquote',
    'pre',
    'ul',
    'ol',
    'table',
    'dl',
    'hr',
    'article',
    'section',
  ]);
  const parts = [];
  let size = 0;
  let pendingBreaks = 0;
  let isLineStart = true;
  let hasSpace = false;
  let preDepth = 0;
  const prefixes = [];
  const put = (text) => {
    if (text === '' || size > maxChars) return;
    if (pendingBreaks > 0) {
      if (parts.length > 0) parts.push('\n'.repeat(Math.min(pendingBreaks, 2)));
      pendingBreaks = 0;
      isLineStart = true;
    }
    if (isLineStart) parts.push(prefixes.join(''));
    else if (hasSpace) parts.push(' ');
    isLineStart = false;
    hasSpace = false;
    parts.push(text);
    size += text.length;
  };
  const newLine = (lines) => {
    pendingBreaks = Math.max(pendingBreaks, lines);
    hasSpace = false;
  };
  const putText = (text) => {
    if (preDepth > 0) {
      const lines = text.split('\n');
      lines.forEach((line, index) => {
        if (index > 0) {
          if (pendingBreaks === 0) pendingBreaks = 1;
          else parts.push('\n');
        }
        if (line !== '') put(line);
      });
      return;
    }
    const words = text.replaceAll(/\s+/g, ' ');
    if (words.startsWith(' ') && !isLineStart) hasSpace = true;
    put(words.trim());
    if (words.length > 1 && words.endsWith(' ')) hasSpace = true;
  };
  const wrapped = (mark, element) => {
    const isEmpty = (element.textContent ?? '').trim() === '';
    if (!isEmpty) {
      put(mark);
      hasSpace = false;
      const before = parts.length;
      isLineStart = false;
      walkChildren(element);
      const trailing = hasSpace;
      hasSpace = false;
      if (parts.length > before) parts.push(mark);
      hasSpace = trailing;
      return;
    }
    walkChildren(element);
  };
  const link = (element) => {
    const target = element instanceof HTMLAnchorElement ? element.getAttribute('href') : null;
    if (target === null || target === '' || target.startsWith('#') || target.toLowerCase().startsWith('javascript:')) {
      walkChildren(element);
      return;
    }
    put('[');
    walkChildren(element);
    const trailing = hasSpace;
    hasSpace = false;
    parts.push(`](${target})`);
    hasSpace = trailing;
  };
  const listItem = (element) => {
    const list = element.parentElement;
    let depth = 0;
    for (let above = list; above; above = above.parentElement) if (/^(?:ul|ol|menu)$/.test(above.localName)) depth += 1;
    const number =
      list?.localName === 'ol' && list instanceof HTMLOListElement
        ? [...list.children].indexOf(element) + list.start
        : 0;
    newLine(1);
    put(`${'  '.repeat(Math.max(1, depth))}${list?.localName === 'ol' ? `${number}.` : '*'}`);
    hasSpace = true;
    walkChildren(element);
    newLine(1);
  };
  const row = (element) => {
    newLine(1);
    const cells = [...element.children].filter((cell) => cell.localName === 'td' || cell.localName === 'th');
    cells.forEach((cell, index) => {
      if (index > 0) {
        pendingBreaks = 0;
        hasSpace = true;
        put('|');
        hasSpace = true;
      }
      walkChildren(cell);
      pendingBreaks = 0;
    });
    newLine(1);
    const isHead = cells.length > 0 && cells.every((cell) => cell.localName === 'th');
    if (isHead) {
      put(cells.map(() => '---').join('|'));
      newLine(1);
    }
  };
  const isHidden = (element) => {
    if (element.hasAttribute('hidden')) return true;
    return element instanceof HTMLElement && element.style.display === 'none';
  };
  const walkElement = (element) => {
    const tag = element.localName;
    if (skipped.has(tag) || isHidden(element)) return;
    if (tag === 'br') {
      if (pendingBreaks === 0) pendingBreaks = 1;
      else pendingBreaks = Math.min(2, pendingBreaks + 1);
      hasSpace = false;
      return;
    }
    if (tag === 'img') return putText(` ${element.getAttribute('alt') ?? ''} `);
    if (tag === 'iframe' || tag === 'frame') {
      newLine(2);
      put(`${frameMark}${element.getAttribute('bid') ?? ''}${frameMark}`);
      return newLine(2);
    }
    if (tag === 'a') return link(element);
    if (tag === 'b' || tag === 'strong') return wrapped('**', element);
    if (tag === 'i' || tag === 'em') return wrapped('_', element);
    if (tag === 'code' && preDepth === 0) return wrapped('`', element);
    if (tag === 'li') return listItem(element);
    if (tag === 'tr') return row(element);
    const isBlock = blocks.has(tag);
    const breaks = spaced.has(tag) ? 2 : 1;
    if (isBlock) newLine(breaks);
    const heading = /^h([1-6])$/.exec(tag)?.[1];
    if (heading !== undefined) {
      put('#'.repeat(Number(heading)));
      hasSpace = true;
    }
    if (tag === 'hr') put('* * *');
    if (tag === 'blockquote') prefixes.push('> ');
    if (tag === 'pre') {
      preDepth += 1;
      prefixes.push('    ');
    }
    walkChildren(element);
    if (tag === 'pre') preDepth -= 1;
    if (tag === 'pre' || tag === 'blockquote') prefixes.pop();
    if (isBlock) newLine(breaks);
  };
  const walk = (node) => {
    if (size > maxChars) return;
    if (node instanceof Element) walkElement(node);
    else if (node.nodeType === Node.TEXT_NODE) putText(node.nodeValue ?? '');
  };
  const walkChildren = (element) => {
    const nodes =
      element.shadowRoot?.childNodes ??
      (element instanceof HTMLSlotElement && element.assignedNodes().length > 0
        ? element.assignedNodes()
        : element.childNodes);
    for (const node of nodes) walk(node);
  };
  if (document.body) walk(document.body);
  return parts.join('');
}
