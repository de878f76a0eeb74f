import { officeParts } from './office-parts.ts';

/** Rows of one sheet that are shown; the answer is cut long before. */
const MAX_ROWS = 2000;

/**
 * The text of an office file or PDF as Markdown. Libraries are loaded when they are needed.
 * @param extension lower case, with the dot
 * @throws Error that says what is wrong, or what this server has no means for
 */
export async function toMarkdown(bytes: Buffer, extension: string): Promise<string> {
  switch (extension) {
    case '.docx':
      await officeParts(bytes, () => false);
      return documentToMarkdown(bytes);
    case '.xlsx':
      await officeParts(bytes, () => false);
      return workbookToMarkdown(bytes);
    case '.pptx':
      return slidesToMarkdown(bytes);
    case '.pdf': {
      const { pdfToText } = await import('./pdf.ts');
      return pdfToText(bytes);
    }
    default:
      throw new Error(`this server has no speech recognition for ${extension} files`);
  }
}

/** By way of HTML, which keeps tables; pictures are named only. */
async function documentToMarkdown(bytes: Buffer): Promise<string> {
  const { default: mammoth } = await import('mammoth');
  const convertImage = mammoth.images.imgElement(async () => ({ src: 'picture' }));
  const { value } = await mammoth.convertToHtml({ buffer: bytes }, { convertImage });
  const { default: Turndown } = await import('turndown');
  const { default: gfm } = await import('@joplin/turndown-plugin-gfm');
  const turndown = new Turndown({ headingStyle: 'atx', bulletListMarker: '*', emDelimiter: '*' });
  return turndown.use(gfm.tables).turndown(value).trim();
}

async function workbookToMarkdown(bytes: Buffer): Promise<string> {
  const { default: readSheets } = await import('read-excel-file/node');
  const sheets = await readSheets(bytes);
  return sheets.map(({ sheet, data }) => `## ${sheet}\n${table(data)}`).join('\n\n');
}

function table(rows: readonly (readonly unknown[])[]): string {
  const [head = [], ...body] = rows.slice(0, MAX_ROWS + 1);
  return [tableRow(head), tableRow(head.map(() => '---')), ...body.map(tableRow)].join('\n');
}

function tableRow(cells: readonly unknown[]): string {
  return `| ${cells.map(cellText).join(' | ')} |`;
}

function cellText(value: unknown): string {
  const text = value instanceof Date ? value.toISOString() : `${(value ?? '') as string | number | boolean}`;
  return text.replaceAll('|', String.raw`\|`).replaceAll(/\r?\n/g, ' ');
}

async function slidesToMarkdown(bytes: Buffer): Promise<string> {
  const { default: xmldom } = await import('@xmldom/xmldom');
  const slides = await officeParts(bytes, (name) => /^ppt\/slides\/slide\d+\.xml$/.test(name));
  const numbered = [...slides].map(([name, xml]) => ({ number: Number(/\d+/.exec(name)?.[0]), xml }));
  return numbered
    .toSorted((a, b) => a.number - b.number)
    .map(({ number, xml }) => {
      const document = new xmldom.DOMParser().parseFromString(xml.toString('utf8'), 'text/xml');
      const paragraphs = Array.from(document.getElementsByTagName('a:p'), paragraphText).filter((text) => text !== '');
      const [title = '', ...rest] = paragraphs;
      return [`<!-- Slide number: ${number} -->`, `# ${title}`, ...rest].join('\n');
    })
    .join('\n\n');
}

function paragraphText(paragraph: {
  getElementsByTagName(name: string): Iterable<{ textContent: string | null }>;
}): string {
  return Array.from(paragraph.getElementsByTagName('a:t'), ({ textContent }) => textContent ?? '')
    .join('')
    .trim();
}
