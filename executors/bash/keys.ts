/** A lone CSI or SS3 sequence such as an arrow key. */
// oxlint-disable-next-line no-control-regex -- the escape character is what is looked for
const ESCAPE_SEQUENCE = /^\u001b(?:\[[0-9;?]*[ -/]*[@-~]|O[A-Za-z]|[A-Za-z])?$/;

/**
 * The bytes of a special key, or undefined for ordinary text.
 *
 * `C-` and one character is that character with Control (V0 §5.6): `C-c`, `C-d`, `C-z`, `C-\`, `C-[` (Escape), `C-m` (Enter),
 * `C-i` (Tab). A lone terminal escape sequence (an arrow is `ESC [ A`) is a key too. Keys are sent without Enter.
 */
export function keyBytes(text: string): string | undefined {
  if (text.length === 3 && text.startsWith('C-')) return controlCharacter(text.slice(2));
  return ESCAPE_SEQUENCE.test(text) ? text : undefined;
}

function controlCharacter(character: string): string | undefined {
  if (character === '?') return '\u007f';
  if (character === ' ') return '\u0000';
  const code = character.toUpperCase().charCodeAt(0);
  return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : undefined;
}
