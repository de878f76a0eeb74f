/** What an agent did that cannot be carried out; shown as `{type}: {message}` (V0 §8.5), in Python's words. */
export class ActionFault extends Error {
  readonly type: string;

  constructor(
    type:
      | 'ValueError'
      | 'NameError'
      | 'TypeError'
      | 'SyntaxError'
      | 'IndexError'
      | 'Error'
      | 'TimeoutError'
      | 'PermissionError',
    message: string,
  ) {
    super(message);
    this.name = 'ActionFault';
    this.type = type;
  }
}

/** Colours that the browser's driver puts around its call log. */
// oxlint-disable-next-line no-control-regex -- that is what they are
const COLOURS = /\u001b\[[\d;]*m/g;
const MAX_FAULT_CHARS = 4000;

/** `ExceptionType: message`, whatever was thrown. */
export function faultLine(error: unknown): string {
  if (error instanceof ActionFault) return `${error.type}: ${error.message}`;
  if (!(error instanceof Error)) return `Error: ${String(error)}`;
  const text = error.message.replace(COLOURS, '').trimEnd();
  const type = error.name === 'TimeoutError' ? 'TimeoutError' : 'Error';
  return `${type}: ${text.length > MAX_FAULT_CHARS ? `${text.slice(0, MAX_FAULT_CHARS)}…` : text}`;
}
