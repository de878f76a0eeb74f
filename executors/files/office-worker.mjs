// A thread of its own for office files as Markdown: the libraries keep it busy as long as the file likes.

import { parentPort, workerData } from 'node:worker_threads';
import gfm from '@joplin/turndown-plugin-gfm';
import { DOMParser } from '@xmldom/xmldom';
import mammoth from 'mammoth';
import readSheets from 'read-excel-file/node';
import Turndown from 'turndown';
import { fromBufferPromise } from 'yauzl';

/** What an office file may unpack to, in bytes; libraries hold all of it in memory. */
const MAX_UNPACKED_BYTES = 256 * 1024 * 1024;

/** Rows of one sheet that are shown; the answer is cut long before. */
const MAX_ROWS = 2000;

const READERS = { '.docx': documentToMarkdown, '.xlsx': workbookToMarkdown, '.pptx': slidesToMarkdown };

/** By way of HTML, which keeps tables; pictures are named only. */
async function documentToMarkdown(bytes) {
  await officeParts(bytes, () => false);
  const convertImage = mammoth.images.imgElement(async () => ({ src: 'picture' }));
  const { value } = await mammoth.convertToHtml({ buffer: bytes }, { convertImage });
  const turndown = new Turndown({ headingStyle: 'atx', bulletListMarker: '*', emDelimiter: '*' });
  return turndown.use(gfm.tables).turndown(value).trim();
}

async function workbookToMarkdown(bytes) {
  await officeParts(bytes, () => false);
  const sheets = await readSheets(bytes);
  return sheets.map(({ sheet, data }) => `## ${sheet}\n${table(data)}`).join('\n\n');
}

function table(rows) {
  const [head = [], ...body] = rows.slice(0, MAX_ROWS + 1);
  return [tableRow(head), tableRow(head.map(() => '---')), ...body.map(tableRow)].join('\n');
}

function tableRow(cells) {
  return `| ${cells.map(cellText).join(' | ')} |`;
}

function cellText(value) {
  const text = value instanceof Date ? value.toISOString() : String(value ?? '');
  return text.replaceAll('|', String.raw`\|`).replaceAll(/\r?\n/g, ' ');
}

async function slidesToMarkdown(bytes) {
  const slides = await officeParts(bytes, (name) => /^ppt\/slides\/slide\d+\.xml$/.test(name));
  return [...slides]
    .map(([name, xml]) => ({ number: Number(/\d+/.exec(name)?.[0]), xml }))
    .toSorted((a, b) => a.number - b.number)
    .map(({ number, xml }) => {
      const document = new DOMParser().parseFromString(xml.toString('utf8'), 'text/xml');
      const paragraphs = Array.from(document.getElementsByTagName('a:p'), paragraphText).filter((text) => text !== '');
      const [title = '', ...rest] = paragraphs;
      return [`<!-- Slide number: ${number} -->`, `# ${title}`, ...rest].join('\n');
    })
    .join('\n\n');
}

function paragraphText(paragraph) {
  return Array.from(paragraph.getElementsByTagName('a:t'), ({ textContent }) => textContent ?? '')
    .join('')
    .trim();
}

/** The wanted parts of an office file, which is a zip, by name; all are counted. */
async function officeParts(bytes, isWanted) {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, validateEntrySizes: true });
  const parts = new Map();
  let total = 0;
  for await (const entry of zip.eachEntry()) {
    total += entry.uncompressedSize;
    if (total > MAX_UNPACKED_BYTES) throw new Error(`the file unpacks to more than ${MAX_UNPACKED_BYTES} bytes`);
    if (isWanted(entry.fileName)) parts.set(entry.fileName, await readPart(zip, entry));
  }
  return parts;
}

async function readPart(zip, entry) {
  const chunks = [];
  for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function answer({ bytes, extension }) {
  try {
    return { text: await READERS[extension](Buffer.from(bytes)) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

parentPort.postMessage(await answer(workerData), []);
