/** What an agent reads of a page (V0 §8.4). */
export interface ContentParts {
  readonly url: string;
  /** `ExceptionType: message`, or empty. */
  readonly error: string;
  /** What happened beside: dialogs, downloads, tabs; one line each. */
  readonly notes: readonly string[];
}

export interface TreeParts extends ContentParts {
  readonly focused: string | null;
  readonly screenshotPath: string | undefined;
  /** undefined: it could not be had. */
  readonly tree: string | undefined;
}

const ERROR_BEGIN = '================ BEGIN error message ===============';
const ERROR_END = '================ END error message ===============';

export function browseContent({
  url,
  error,
  notes,
  text,
}: ContentParts & { readonly text: string | undefined }): string {
  const lines = [`[Current URL: ${url}]`, ...notes.map((note) => `[${note}]`)];
  if (error !== '')
    lines.push(ERROR_BEGIN, 'The following error occurred when trying to visit the URL:', error, ERROR_END);
  lines.push(
    '============== BEGIN webpage content ==============',
    text ?? '[The text of the page could not be read.]',
    '',
    '============== END webpage content ==============',
  );
  return lines.join('\n');
}

export function interactiveContent({ url, error, notes, focused, screenshotPath, tree }: TreeParts): string {
  const lines = [`[Current URL: ${url}]`, `[Focused element bid: ${focused ?? 'None'}]`];
  if (screenshotPath !== undefined) lines.push(`[Screenshot saved to: ${screenshotPath}]`);
  lines.push(...notes.map((note) => `[${note}]`), '');
  if (error === '') lines.push('[Action executed successfully.]');
  else lines.push(ERROR_BEGIN, 'The following error occurred when executing the last action:', error, ERROR_END);
  if (tree === undefined) {
    lines.push('', '[Error encountered when processing the accessibility tree: the page does not answer]');
    return lines.join('\n');
  }
  lines.push(
    'Accessibility tree of the COMPLETE webpage:',
    'Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for each element in the AXTree. Always use bid to refer to elements in your actions.',
    '============== BEGIN accessibility tree ==============',
    tree,
    '============== END accessibility tree ==============',
  );
  return lines.join('\n');
}
