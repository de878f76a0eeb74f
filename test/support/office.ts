import { execFileSync } from 'node:child_process';
import { deflateSync } from 'node:zlib';

const XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>';
const RELATIONS = 'http://schemas.openxmlformats.org/package/2006/relationships';
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const WORD = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main';
const SHEET = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';
const DRAWING = 'http://schemas.openxmlformats.org/drawingml/2006/main';
const SLIDE = 'http://schemas.openxmlformats.org/presentationml/2006/main';

type Parts = Readonly<Record<string, string>>;

function writeOffice(path: string, main: string, contentTypes: Parts, parts: Parts): void {
  const overrides = Object.entries(contentTypes).map(
    ([name, type]) => `<Override PartName="/${name}" ContentType="application/vnd.openxmlformats-${type}+xml"/>`,
  );
  const all = {
    '[Content_Types].xml': `${XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>${overrides.join('')}</Types>`,
    '_rels/.rels': relations([['officeDocument', main]]),
    ...parts,
  };
  const script = `import zipfile,sys,json
z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)
for name, text in json.load(sys.stdin).items(): z.writestr(name, text)
z.close()`;
  execFileSync('python3', ['-c', script, path], { input: JSON.stringify(all) });
}

function relations(targets: readonly (readonly [type: string, target: string])[]): string {
  const items = targets.map(
    ([type, target], index) => `<Relationship Id="rId${index + 1}" Type="${OFFICE}/${type}" Target="${target}"/>`,
  );
  return `${XML}<Relationships xmlns="${RELATIONS}">${items.join('')}</Relationships>`;
}

function paragraph(text: string, properties = ''): string {
  return `<w:p>${properties}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
}

/** So many paragraphs, which are little in the file and much in the memory of whoever reads it. */
export function writeLongDocument(path: string, paragraphs: number): void {
  const body = Array.from({ length: paragraphs }, (_, index) => paragraph(`paragraph ${index}`)).join('');
  writeOffice(
    path,
    'word/document.xml',
    { 'word/document.xml': 'officedocument.wordprocessingml.document.main' },
    { 'word/document.xml': `${XML}<w:document xmlns:w="${WORD}"><w:body>${body}</w:body></w:document>` },
  );
}

/** A heading, a paragraph with bold text, a list of two and a table of two by two. */
export function writeDocument(path: string): void {
  const item = (text: string): string =>
    paragraph(text, '<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>');
  const row = (...cells: string[]): string =>
    `<w:tr>${cells.map((cell) => `<w:tc>${paragraph(cell)}</w:tc>`).join('')}</w:tr>`;
  const body =
    paragraph('Größe &amp; Maß', '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>') +
    '<w:p><w:r><w:t xml:space="preserve">Some </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r><w:r><w:t xml:space="preserve"> 日本語.</w:t></w:r></w:p>' +
    item('first') +
    item('second') +
    `<w:tbl>${row('a', 'b')}${row('1', '2')}</w:tbl>`;
  const style = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>';
  const numbering =
    '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>' +
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>';
  writeOffice(
    path,
    'word/document.xml',
    {
      'word/document.xml': 'officedocument.wordprocessingml.document.main',
      'word/styles.xml': 'officedocument.wordprocessingml.styles',
      'word/numbering.xml': 'officedocument.wordprocessingml.numbering',
    },
    {
      'word/document.xml': `${XML}<w:document xmlns:w="${WORD}"><w:body>${body}</w:body></w:document>`,
      'word/styles.xml': `${XML}<w:styles xmlns:w="${WORD}">${style}</w:styles>`,
      'word/numbering.xml': `${XML}<w:numbering xmlns:w="${WORD}">${numbering}</w:numbering>`,
      'word/_rels/document.xml.rels': relations([
        ['styles', 'styles.xml'],
        ['numbering', 'numbering.xml'],
      ]),
    },
  );
}

/** Two sheets: `People` with text, a number, a date, a formula and an empty cell; `Empty`. */
export function writeWorkbook(path: string): void {
  const inline = (at: string, text: string): string => `<c r="${at}" t="inlineStr"><is><t>${text}</t></is></c>`;
  const rows =
    `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>${inline('C1', 'born')}</row>` +
    `<row r="2">${inline('A2', 'Ada | Łovelace')}<c r="B2"><v>36.5</v></c><c r="C2" s="1"><v>36526</v></c></row>` +
    `<row r="3">${inline('A3', 'two&#10;lines')}<c r="B3"><f>B2*2</f><v>73</v></c></row>`;
  const sheet = (data: string): string =>
    `${XML}<worksheet xmlns="${SHEET}"><sheetData>${data}</sheetData></worksheet>`;
  writeOffice(
    path,
    'xl/workbook.xml',
    {
      'xl/workbook.xml': 'officedocument.spreadsheetml.sheet.main',
      'xl/worksheets/sheet1.xml': 'officedocument.spreadsheetml.worksheet',
      'xl/worksheets/sheet2.xml': 'officedocument.spreadsheetml.worksheet',
      'xl/sharedStrings.xml': 'officedocument.spreadsheetml.sharedStrings',
      'xl/styles.xml': 'officedocument.spreadsheetml.styles',
    },
    {
      'xl/workbook.xml': `${XML}<workbook xmlns="${SHEET}" xmlns:r="${OFFICE}"><sheets><sheet name="People" sheetId="1" r:id="rId1"/><sheet name="Empty" sheetId="2" r:id="rId2"/></sheets></workbook>`,
      'xl/worksheets/sheet1.xml': sheet(rows),
      'xl/worksheets/sheet2.xml': sheet(''),
      'xl/sharedStrings.xml': `${XML}<sst xmlns="${SHEET}"><si><t>name</t></si><si><t>age</t></si></sst>`,
      'xl/styles.xml': `${XML}<styleSheet xmlns="${SHEET}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>`,
      'xl/_rels/workbook.xml.rels': relations([
        ['worksheet', 'worksheets/sheet1.xml'],
        ['worksheet', 'worksheets/sheet2.xml'],
        ['sharedStrings', 'sharedStrings.xml'],
        ['styles', 'styles.xml'],
      ]),
    },
  );
}

/** `count` slides, each with a title and a line. */
export function writeSlides(path: string, count: number): void {
  const shape = (text: string): string =>
    `<p:sp><p:txBody><a:p><a:r><a:t>${text.slice(0, 2)}</a:t></a:r><a:r><a:t>${text.slice(2)}</a:t></a:r></a:p></p:txBody></p:sp>`;
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  const slides = numbers.map((number) => [
    `ppt/slides/slide${number}.xml`,
    `${XML}<p:sld xmlns:p="${SLIDE}" xmlns:a="${DRAWING}"><p:cSld><p:spTree>${shape(`Title ${number}`)}${shape(`Ünï &lt;${number}&gt;`)}</p:spTree></p:cSld></p:sld>`,
  ]);
  writeOffice(
    path,
    'ppt/presentation.xml',
    { 'ppt/presentation.xml': 'officedocument.presentationml.presentation.main' },
    { 'ppt/presentation.xml': `${XML}<p:presentation xmlns:p="${SLIDE}"/>`, ...Object.fromEntries(slides) },
  );
}

/** A PDF with a page for each text. */
export function pdfOf(pages: readonly string[]): Buffer {
  return pdfWith(pages.map((text) => ({ content: `BT /F1 24 Tf 72 700 Td (${text}) Tj ET`, filter: '' })));
}

/** A PDF of one page, small, that unpacks to `mebibytes` of nothing. */
export function pdfBomb(mebibytes: number): Buffer {
  const packed = deflateSync(Buffer.alloc(mebibytes * 1024 * 1024, ' '), { level: 9 });
  return pdfWith([{ content: packed.toString('latin1'), filter: '/Filter /FlateDecode' }]);
}

function pdfWith(pages: readonly { readonly content: string; readonly filter: string }[]): Buffer {
  const kids = pages.map((_, index) => `${4 + 2 * index} 0 R`).join(' ');
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap(({ content, filter }, index) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${5 + 2 * index} 0 R >>`,
      `<< /Length ${content.length} ${filter} >>\nstream\n${content}\nendstream`,
    ]),
  ];
  let text = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const offset = text.length;
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const table = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  const trailer = `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`;
  return Buffer.from(`${text}xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}${trailer}`, 'latin1');
}
