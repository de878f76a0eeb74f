const QUOTE = '"';
const BACKSLASH = 92;
const [COMMA, BRACKET, BRACE] = [44, 91, 123];

/**
 * Whether a JSON text has more values than a limit, without parsing it: what takes long to parse, and much memory, are many small
 * values, not a few long strings. What is not JSON gets some answer.
 */
export function hasMoreValues(text: string, limit: number): boolean {
  let values = 0;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf(QUOTE, at);
    const end = quote < 0 ? text.length : quote;
    for (; at < end; at += 1) {
      const code = text.charCodeAt(at);
      if (code === COMMA || code === BRACKET || code === BRACE) values += 1;
    }
    if (values > limit) return true;
    at = quote < 0 ? end : endOfString(text, quote + 1);
  }
  return false;
}

/** @returns where the text goes on behind the string that begins at `from` */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf(QUOTE, from); quote >= 0; quote = text.indexOf(QUOTE, quote + 1)) {
    let before = quote;
    while (before > from && text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((quote - before) % 2 === 0) return quote + 1;
  }
  return text.length;
}
