/** Receives what the parser recognises. `Csi` objects are reused: read them at once. */
export interface ParserEvents {
  /** Bytes 0x20 to 0x7e. */
  ascii(bytes: Buffer, start: number, end: number): void;
  /** Decoded text with at least one character outside ASCII, without control characters. */
  text(text: string): void;
  /** A C0 control byte. */
  control(byte: number): void;
  escape(intermediate: number, final: number): void;
  csi(csi: Csi): void;
}

/** Length of a control string, in bytes, after which its missing terminator is given up. */
export const MAX_STRING_BYTES = 64 * 1024;
const MAX_CSI_BYTES = 256;
const MAX_PARAMS = 32;
const MAX_PARAM_VALUE = 65_535;

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BELL = 0x07;
const CANCEL = 0x18;
const SUBSTITUTE = 0x1a;
const ESCAPE = 0x1b;
const DELETE = 0x7f;

/** One control sequence: `ESC [ marker params intermediates final`. */
export class Csi {
  /** One of `< = > ?`, or 0. */
  marker = 0;
  hasIntermediates = false;
  final = 0;
  readonly #params: number[] = [0];

  /** The parameter as a count: absent and 0 both mean 1. */
  count(index: number): number {
    return this.#params[index] || 1;
  }

  /** The parameter as a selector: absent means 0. */
  value(index: number): number {
    return this.#params[index] ?? 0;
  }

  values(): readonly number[] {
    return this.#params;
  }

  clear(): void {
    this.marker = 0;
    this.hasIntermediates = false;
    this.#params.length = 1;
    this.#params[0] = 0;
  }

  addDigit(digit: number): void {
    const last = this.#params.length - 1;
    const value = (this.#params[last] ?? 0) * 10 + digit;
    this.#params[last] = Math.min(value, MAX_PARAM_VALUE);
  }

  nextParam(): void {
    if (this.#params.length < MAX_PARAMS) this.#params.push(0);
  }
}

type State = 'ground' | 'escape' | 'csi' | 'string' | 'deviceString';

/** Splits a terminal's byte stream into text, controls and sequences, across any chunk borders. */
export class Parser {
  readonly #events: ParserEvents;
  readonly #csi = new Csi();
  readonly #partial = Buffer.alloc(4);
  #partialLength = 0;
  #state: State = 'ground';
  #intermediate = 0;
  #sequenceBytes = 0;

  constructor(events: ParserEvents) {
    this.#events = events;
  }

  get isGround(): boolean {
    return this.#state === 'ground';
  }

  reset(): void {
    this.#state = 'ground';
    this.#partialLength = 0;
  }

  /** Bytes before what comes next were skipped: a character begun there is lost. */
  forgetPartialCharacter(): void {
    this.#partialLength = 0;
  }

  parse(bytes: Buffer, start: number, end: number): void {
    let at = this.#partialLength > 0 ? this.#completeCharacter(bytes, start, end) : start;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (this.#state === 'ground' && byte >= 0x20 && byte !== DELETE) {
        at = this.#text(bytes, at, end);
      } else {
        if (this.#step(byte)) at += 1;
      }
    }
  }

  /** False when the byte ended a state and has to be read again in the next one. */
  #step(byte: number): boolean {
    switch (this.#state) {
      case 'ground':
        this.#control(byte);
        return true;
      case 'escape':
        return this.#escapeStep(byte);
      case 'csi':
        return this.#csiStep(byte);
      default:
        return this.#stringStep(byte);
    }
  }

  #control(byte: number): void {
    if (byte === ESCAPE) this.#enterEscape();
    else if (byte === CANCEL || byte === SUBSTITUTE) this.#state = 'ground';
    else if (byte !== DELETE) this.#events.control(byte);
  }

  #enterEscape(): void {
    this.#state = 'escape';
    this.#intermediate = 0;
    this.#sequenceBytes = 0;
  }

  #escapeStep(byte: number): boolean {
    if (byte < 0x20 || byte === DELETE) {
      this.#control(byte);
      return true;
    }
    if (byte >= 0x80 || !this.#countByte(MAX_CSI_BYTES)) return this.#abandon();
    if (byte < 0x30) {
      this.#intermediate = byte;
      return true;
    }
    this.#state = this.#intermediate === 0 ? stateAfter(byte) : 'ground';
    this.#sequenceBytes = 0;
    if (this.#state === 'csi') this.#csi.clear();
    if (this.#state === 'ground') this.#events.escape(this.#intermediate, byte);
    return true;
  }

  #csiStep(byte: number): boolean {
    if (byte < 0x20 || byte === DELETE) {
      this.#control(byte);
      return true;
    }
    if (byte >= 0x80 || !this.#countByte(MAX_CSI_BYTES)) return this.#abandon();
    const csi = this.#csi;
    if (byte >= 0x40) {
      this.#state = 'ground';
      csi.final = byte;
      this.#events.csi(csi);
    } else if (byte >= 0x3c) csi.marker = byte;
    else if (byte >= 0x3a) csi.nextParam();
    else if (byte >= 0x30) csi.addDigit(byte - 0x30);
    else csi.hasIntermediates = true;
    return true;
  }

  /**
   * The content of a control string is not kept. An escape ends it too: it is the terminator's
   * first byte, or the beginning of something else. So does a line end, except in device strings
   * (images have line ends in them): a stray `ESC ]` costs one line.
   */
  #stringStep(byte: number): boolean {
    const isLineEnd = byte === LINE_FEED || byte === CARRIAGE_RETURN;
    if (isLineEnd && this.#state === 'string') return this.#abandon();
    if (!this.#countByte(MAX_STRING_BYTES)) return this.#abandon();
    if (byte === ESCAPE) this.#enterEscape();
    else if (byte === BELL || byte === CANCEL || byte === SUBSTITUTE) this.#state = 'ground';
    return true;
  }

  #countByte(limit: number): boolean {
    this.#sequenceBytes += 1;
    return this.#sequenceBytes <= limit;
  }

  #abandon(): false {
    this.#state = 'ground';
    return false;
  }

  #text(bytes: Buffer, start: number, end: number): number {
    let at = start;
    let seen = 0;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (byte < 0x20 || byte === DELETE) break;
      seen |= byte;
      at += 1;
    }
    if (seen < 0x80) this.#events.ascii(bytes, start, at);
    else this.#decode(bytes, start, at === end ? this.#holdBack(bytes, start, end) : at);
    return at;
  }

  /** Keeps the bytes of a character that the chunk's end cuts; returns where the whole text ends. */
  #holdBack(bytes: Buffer, start: number, end: number): number {
    for (let at = end - 1; at >= start && at >= end - 3; at -= 1) {
      const byte = bytes[at] ?? 0;
      if (isContinuation(byte)) continue;
      if (sequenceLength(byte) <= end - at) return end;
      bytes.copy(this.#partial, 0, at, end);
      this.#partialLength = end - at;
      return at;
    }
    return end;
  }

  #completeCharacter(bytes: Buffer, start: number, end: number): number {
    const wanted = sequenceLength(this.#partial[0] ?? 0);
    let at = start;
    while (at < end && this.#partialLength < wanted && isContinuation(bytes[at] ?? 0)) {
      this.#partial[this.#partialLength] = bytes[at] ?? 0;
      this.#partialLength += 1;
      at += 1;
    }
    if (this.#partialLength === wanted) this.#decode(this.#partial, 0, wanted);
    else if (at === end) return at;
    this.#partialLength = 0;
    return at;
  }

  #decode(bytes: Buffer, start: number, end: number): void {
    let text = bytes.toString('utf8', start, end);
    if (SUSPICIOUS.test(text)) text = decodeStrictly(bytes, start, end);
    if (text !== '') this.#events.text(text);
  }
}

/** What a lenient decoder makes of invalid bytes, and C1 controls. */
// oxlint-disable-next-line no-control-regex
const SUSPICIOUS = /[\u0080-\u009f\ufffd]/;

function stateAfter(final: number): State {
  switch (final) {
    case 0x5b: // [
      return 'csi';
    case 0x50: // P
      return 'deviceString';
    case 0x5d: // ]
    case 0x58: // X
    case 0x5e: // ^
    case 0x5f: // _
      return 'string';
    default:
      return 'ground';
  }
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** Bytes of the UTF-8 sequence this byte begins; 1 for a byte that begins none. */
function sequenceLength(lead: number): number {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 1;
}

/** Leaves out invalid bytes and C1 controls, and tells a real U+FFFD from a replaced byte. */
function decodeStrictly(bytes: Buffer, start: number, end: number): string {
  const kept: string[] = [];
  let at = start;
  while (at < end) {
    const length = sequenceLength(bytes[at] ?? 0);
    let next = at + 1;
    while (next < end && next < at + length && isContinuation(bytes[next] ?? 0)) next += 1;
    const char = next === at + length ? bytes.toString('utf8', at, next) : '';
    if (isKept(char, bytes[at] ?? 0)) kept.push(char);
    at = next;
  }
  return kept.join('');
}

function isKept(char: string, lead: number): boolean {
  const codePoint = char.codePointAt(0);
  if (codePoint === undefined || (codePoint >= 0x80 && codePoint <= 0x9f)) return false;
  // A replaced sequence decodes to several U+FFFD, a lone stray byte to one.
  return codePoint !== 0xfffd || (lead === 0xef && char.length === 1);
}
