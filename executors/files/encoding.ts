import { isUtf8 } from 'node:buffer';
import type Iconv from 'iconv-lite';
import { looksLikeUtf16 } from './binary.ts';
import { SNIFF_BYTES } from './limits.ts';

/** How a file's bytes are text. */
export interface Encoding {
  /** As people write it. */
  readonly name: string;
  /** Byte order mark, which is no part of the text. */
  readonly mark: Buffer;
}

export interface DecodedText {
  readonly text: string;
  readonly encoding: Encoding;
}

/** Text that an encoding has no bytes for. */
export class UnencodableError extends Error {
  constructor(encoding: string, character: string) {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    super(`'${encoding}' codec can't encode character ${JSON.stringify(character)} (U+${code})`);
    this.name = 'UnencodableError';
  }
}

const NO_MARK = Buffer.alloc(0);
export const UTF_8: Encoding = { name: 'utf-8', mark: NO_MARK };

const MARKED: readonly Encoding[] = [
  { name: 'utf-8', mark: Buffer.from([0xef, 0xbb, 0xbf]) },
  { name: 'utf-32le', mark: Buffer.from([0xff, 0xfe, 0, 0]) },
  { name: 'utf-32be', mark: Buffer.from([0, 0, 0xfe, 0xff]) },
  { name: 'utf-16le', mark: Buffer.from([0xff, 0xfe]) },
  { name: 'utf-16be', mark: Buffer.from([0xfe, 0xff]) },
];

/** What a file says about itself: PEP 263, Emacs, XML, HTML, CSS. */
const DECLARATION = /(?:coding|charset|encoding)\s*[:=]\s*["']?([A-Za-z][\w.:-]{2,30})/;
const DECLARATION_BYTES = 512;

/** Bytes that are looked at for a guess; the rest rarely changes it, and costs time. */
const GUESS_BYTES = 64 * 1024;

/** Takes every byte, so that a wrong guess never loses one. */
const LAST_RESORT = 'iso-8859-1';

/**
 * The text of a file in whatever encoding it has: by its mark, as UTF-8 if it is valid, by what it declares, by the likeliest guess.
 * Only an encoding that gives back these very bytes is taken.
 */
export async function decode(bytes: Buffer): Promise<DecodedText> {
  const marked = MARKED.find(({ mark }) => bytes.subarray(0, mark.length).equals(mark));
  if (marked === undefined && isUtf8(bytes)) return { text: bytes.toString('utf8'), encoding: UTF_8 };
  for (const encoding of marked ? [marked] : await candidates(bytes)) {
    const text = await tryDecode(bytes, encoding);
    if (text !== undefined) return { text, encoding };
  }
  return { text: bytes.toString('latin1'), encoding: { name: LAST_RESORT, mark: NO_MARK } };
}

/** @throws UnencodableError */
export async function encode(text: string, { name, mark }: Encoding): Promise<Buffer> {
  const lone = /\p{Surrogate}/u.exec(text)?.[0];
  if (lone !== undefined) throw new UnencodableError(name, lone);
  if (name === 'utf-8') return mark.length === 0 ? Buffer.from(text) : Buffer.concat([mark, Buffer.from(text)]);
  const codec = await loadCodec();
  const bytes = codec.encode(text, name);
  const back = codec.decode(bytes, name, { stripBOM: false });
  if (back !== text) throw new UnencodableError(name, firstDifference(text, back));
  return Buffer.concat([mark, bytes]);
}

async function candidates(bytes: Buffer): Promise<Encoding[]> {
  const { certain, likely } = await guesses(bytes);
  const head = bytes.subarray(0, GUESS_BYTES);
  const codec = await loadCodec();
  const rated = likely
    .filter((name) => codec.encodingExists(name))
    .map((name) => ({ name, oddities: countOddities(codec.decode(head, name)) }));
  const names = [...certain, ...rated.toSorted((a, b) => a.oddities - b.oddities).map(({ name }) => name)];
  return names.map((name) => ({ name, mark: NO_MARK }));
}

/** What a text in the right encoding rarely has: capitals inside of words, control codes, frames, and bytes without a meaning. */
const ODDITY = /\p{Ll}\p{Lu}|[\u0080-\u009F\u2500-\u259F\uFFFD]/gu;

function countOddities(text: string): number {
  return text.match(ODDITY)?.length ?? 0;
}

/** What a file shows or says, and what its bytes are like, the likeliest first. */
async function guesses(bytes: Buffer): Promise<{ certain: string[]; likely: string[] }> {
  const utf16 = looksLikeUtf16(bytes.subarray(0, SNIFF_BYTES));
  const named = DECLARATION.exec(bytes.toString('latin1', 0, DECLARATION_BYTES))?.[1];
  const declared = named !== undefined && WIDE.test(named) ? undefined : named;
  const { default: chardet } = await import('chardet');
  const likely = chardet.analyse(bytes.subarray(0, GUESS_BYTES)).map(({ name }) => name);
  return { certain: usable([utf16, declared]), likely: usable(likely) };
}

function usable(names: readonly (string | undefined)[]): string[] {
  return names.flatMap((name) => (name === undefined || NOT_GUESSED.test(name) ? [] : [name.toLowerCase()]));
}

/** Tried already, or never right for a file: some are not for text at all, as in `Content-Transfer-Encoding: base64`. */
const NOT_GUESSED = /^(?:utf-?8|ascii|us-ascii|iso-2022.*|base64|hex|internal)$/i;

/** What was read byte by byte has no two or four bytes for each character. */
const WIDE = /^(?:utf-?16|utf-?32|ucs)/i;

async function tryDecode(bytes: Buffer, { name, mark }: Encoding): Promise<string | undefined> {
  const body = bytes.subarray(mark.length);
  if (name === 'utf-8') return isUtf8(body) ? body.toString('utf8') : undefined;
  const codec = await loadCodec();
  if (!codec.encodingExists(name)) return undefined;
  const text = codec.decode(body, name, { stripBOM: false });
  // A byte without a meaning comes back all the same, and must not be shown as one that has.
  const isWhole = name.startsWith('utf') || !text.includes('\uFFFD');
  return isWhole && codec.encode(text, name).equals(body) ? text : undefined;
}

/** A quarter of a megabyte of tables that most sessions never need. */
async function loadCodec(): Promise<typeof Iconv> {
  const module = await import('iconv-lite');
  return module.default;
}

function firstDifference(text: string, other: string): string {
  const mine = Array.from(text);
  const theirs = Array.from(other);
  return mine.find((character, index) => character !== theirs[index]) ?? '';
}
