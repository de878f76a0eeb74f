/** Text of any length of which the beginning and the end are kept. */
export class HeadTail {
  readonly #headChars: number;
  readonly #tailChars: number;
  #head = '';
  #tail: string[] = [];
  #tailLength = 0;

  /** Characters (UTF-16 units) that were left out in the middle. */
  dropped = 0;

  constructor(headChars: number, tailChars: number) {
    this.#headChars = headChars;
    this.#tailChars = tailChars;
  }

  get length(): number {
    return this.#head.length + this.#tailLength;
  }

  append(text: string): void {
    if (text === '') return;
    const room = this.#headChars - this.#head.length;
    if (room > 0 && this.#tailLength === 0) {
      this.#head += text.slice(0, room);
      if (text.length > room) this.#appendTail(text.slice(room));
    } else {
      this.#appendTail(text);
    }
  }

  get head(): string {
    return this.#head;
  }

  get tail(): string {
    const text = this.#tail.join('');
    this.#tail = text === '' ? [] : [text];
    return text;
  }

  #appendTail(text: string): void {
    this.#tail.push(text);
    this.#tailLength += text.length;
    // Whole pieces first; twice the limit is the most that is kept before one is cut.
    while (this.#tail.length > 1 && this.#tailLength - (this.#tail[0]?.length ?? 0) >= this.#tailChars) this.#drop();
    if (this.#tailLength <= 2 * this.#tailChars) return;
    const whole = this.#tail.join('');
    const kept = whole.slice(-this.#tailChars);
    this.dropped += whole.length - kept.length;
    this.#tail = [kept];
    this.#tailLength = kept.length;
  }

  #drop(): void {
    const { length } = this.#tail.shift() ?? '';
    this.#tailLength -= length;
    this.dropped += length;
  }
}
