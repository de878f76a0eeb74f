type CommandList = 'top' | 'subshell' | 'substitution' | 'brace' | 'if' | 'then' | 'else' | 'while' | 'do' | 'clause';
type CompoundHeader = 'for' | 'forIn' | 'forWords' | 'forDo' | 'case' | 'caseIn' | 'pattern' | 'condition';
type WordGroup = 'array' | 'glob';
type Quoting = 'double' | 'parameter' | 'bracket';

/** What is open at some place of the text. */
type Construct = CommandList | CompoundHeader | WordGroup | Quoting;

/**
 * Where in a command of a list we are, if it cannot end there. `operand`: after `&&` or `||`. `piped`: after `|`.
 * `coproc`, `function`: after that word. `functionName`: after the word after that. `body`: after `f()`.
 */
type Unfinished = 'operand' | 'piped' | 'coproc' | 'function' | 'functionName' | 'body';

/**
 * Where in a command of a list we are. `start`: nothing yet. `prefix`: after `!` or `time`. `coprocName`: after the word
 * after `coproc`. `command`: after the first word. `arguments`: after a later one. `closed`: after a compound command.
 * `redirected`: after a redirection of one.
 */
type Position = 'start' | 'prefix' | 'coprocName' | 'command' | 'arguments' | 'closed' | 'redirected' | Unfinished;

interface Heredoc {
  readonly delimiter: string;
  readonly isQuoted: boolean;
  readonly stripsTabs: boolean;
}

interface Frame {
  construct: Construct;
  position: Position;
  /** The list has a command: `then fi` and `{ }` are errors. */
  isFilled: boolean;
  /** Offset of the word being read, or -1. */
  wordStart: number;
  /** The word has no quote, escape or expansion, so that it may be a reserved word. */
  isPlain: boolean;
  /** The redirection whose target is the next word. */
  redirection: '' | '<' | '<<' | '<<-';
  /** Here-documents that begin after this line; shared with enclosing frames up to a command substitution. */
  heredocs: Heredoc[];
}

interface Span {
  readonly start: number;
  readonly end: number;
}

interface Scan {
  readonly text: string;
  offset: number;
  readonly frames: Frame[];
  /** Offset of the top-level command being read, or -1. */
  commandStart: number;
  readonly commands: Span[];
  /** Offsets of `(` and of their `)`, or -1; see closingParenthesis. */
  readonly parentheses: Map<number, number>;
  /** Characters that closingParenthesis may still look at: keeps hostile text from taking quadratic time. */
  lookahead: number;
  isBroken: boolean;
}

/** Reserved words that begin a compound command, and what they open. */
const OPENERS: ReadonlyMap<string, Construct> = new Map([
  ['if', 'if'],
  ['while', 'while'],
  ['until', 'while'],
  ['for', 'for'],
  ['select', 'for'],
  ['case', 'case'],
  ['{', 'brace'],
  ['[[', 'condition'],
]);

/** By `construct word`: reserved words that go on from an open construct, to its next part or out of it. */
const SUCCESSORS: ReadonlyMap<string, Construct | 'closed'> = new Map([
  ['if then', 'then'],
  ['then elif', 'if'],
  ['then else', 'else'],
  ['then fi', 'closed'],
  ['else fi', 'closed'],
  ['while do', 'do'],
  ['do done', 'closed'],
  ['brace }', 'closed'],
  ['clause esac', 'closed'],
]);

/** Constructs that are no lists of commands, although they are read by tokens. */
const HEADERS: ReadonlySet<Construct> = new Set(['for', 'forIn', 'forWords', 'forDo', 'case', 'caseIn', 'pattern']);

/** Constructs in which operators are text. */
const LOOSE: ReadonlySet<Construct> = new Set(['array', 'glob', 'condition']);

/** Reserved words that are errors where no construct waits for them. */
const MISPLACED: ReadonlySet<string> = new Set(['then', 'elif', 'else', 'fi', 'do', 'done', 'esac', '}', ']]', 'in']);

/** `function`, and room for line continuations. */
const LONGEST_RESERVED_WORD = 16;

/** Positions in which a reserved word is one: `echo if` is no `if`. */
const COMMAND_POSITIONS: ReadonlySet<Position> = new Set([
  'start',
  'operand',
  'piped',
  'prefix',
  'coproc',
  'coprocName',
  'functionName',
  'body',
]);

/** Positions that cannot be the end of a command. */
const UNFINISHED: ReadonlySet<Position> = new Set(['operand', 'piped', 'coproc', 'function', 'functionName', 'body']);

const OPERATOR = /^(?:&>>|;;&|<<<|<<-|&&|\|\||\|&|;;|;&|<<|<&|<>|>>|>\||>&|&>|[;&|<>])/;
const LONGEST_OPERATOR = 3;

/**
 * Splits shell text into its complete top-level commands: what bash would read, and run, one after another (V0 §5.4).
 * Text that bash would find incomplete or wrong comes back whole, so that bash itself can say so; text without a
 * command gives nothing. Comments belong to the command before them. Takes linear time, whatever the text.
 */
export function splitCommands(text: string): string[] {
  const scan = createScan(text);
  while (scan.offset < text.length && !scan.isBroken) step(scan);
  finish(scan);
  if (scan.isBroken) return [text];
  return scan.commands.map(({ start, end }, index) => {
    const from = index === 0 ? firstLineWithText(text) : start;
    return text.slice(from, withoutBlanks(text, end, scan.commands[index + 1]?.start ?? text.length));
  });
}

function createScan(text: string): Scan {
  const scan: Scan = {
    text,
    offset: 0,
    frames: [],
    commandStart: -1,
    commands: [],
    parentheses: new Map(),
    lookahead: 4 * text.length,
    isBroken: false,
  };
  open(scan, 'top', []);
  return scan;
}

function firstLineWithText(text: string): number {
  return text.lastIndexOf('\n', text.search(/[^ \t\n]/)) + 1;
}

/**
 * The end of the text before `next`, without blanks and line continuations that lead to nothing; but not before `end`,
 * because a command may end in an escaped blank.
 */
function withoutBlanks(text: string, end: number, next: number): number {
  let last = next;
  while (last > end && ' \t\n\\'.includes(text.charAt(last - 1))) last -= 1;
  return last;
}

function step(scan: Scan): void {
  const frame = current(scan);
  switch (frame.construct) {
    case 'double':
      return stepDouble(scan);
    case 'parameter':
      return stepUntil(scan, '', '}');
    case 'bracket':
      return stepUntil(scan, '[', ']');
    default:
      return stepTokens(scan, frame);
  }
}

function finish(scan: Scan): void {
  if (scan.isBroken) return;
  endWord(scan, current(scan));
  const { construct, position, redirection, heredocs } = current(scan);
  if (construct !== 'top' || UNFINISHED.has(position) || redirection !== '' || heredocs.length > 0)
    scan.isBroken = true;
  else completeCommand(scan, scan.text.length);
}

// Frames

function current(scan: Scan): Frame {
  const frame = scan.frames.at(-1);
  if (frame === undefined) throw new Error('no frame is open');
  return frame;
}

function open(scan: Scan, construct: Construct, heredocs: Heredoc[] = current(scan).heredocs): void {
  scan.frames.push({
    construct,
    position: 'start',
    isFilled: false,
    wordStart: -1,
    isPlain: true,
    redirection: '',
    heredocs,
  });
}

/** Leaves a part of a word, which goes on. */
function closeInWord(scan: Scan): void {
  scan.frames.pop();
}

/** Leaves a compound command. */
function closeCompound(scan: Scan): void {
  scan.frames.pop();
  afterCompound(current(scan));
}

function afterCompound(frame: Frame): void {
  if (frame.construct === 'for') frame.construct = 'forDo';
  else frame.position = 'closed';
}

function enter(frame: Frame, construct: Construct): void {
  frame.construct = construct;
  frame.position = 'start';
  frame.isFilled = false;
}

// Quotes and expansions

function stepDouble(scan: Scan): void {
  const character = scan.text[scan.offset];
  if (character === '"') {
    scan.offset += 1;
    closeInWord(scan);
  } else if (character === '\\') scan.offset += 2;
  else if (!skipExpansion(scan)) scan.offset += 1;
}

/** Inside `${ }` and `[ ]`, where single quotes quote even within double quotes. */
function stepUntil(scan: Scan, opener: string, closer: string): void {
  const character = scan.text.charAt(scan.offset);
  if (character === closer) {
    scan.offset += 1;
    closeInWord(scan);
  } else if (character === opener) {
    scan.offset += 1;
    open(scan, current(scan).construct);
  } else if (!skipQuote(scan) && !skipExpansion(scan)) scan.offset += 1;
}

function skipQuote(scan: Scan): boolean {
  const { text, offset } = scan;
  switch (text[offset]) {
    case '\\':
      scan.offset += 2;
      return true;
    case "'":
      return skipPast(scan, text.indexOf("'", offset + 1));
    case '"':
      scan.offset += 1;
      open(scan, 'double');
      return true;
    case '$':
      return text[offset + 1] === "'" && skipPast(scan, unescapedIndex(text, "'", offset + 2));
    default:
      return false;
  }
}

function skipExpansion(scan: Scan): boolean {
  const { text, offset } = scan;
  if (text[offset] === '`') return skipPast(scan, unescapedIndex(text, '`', offset + 1));
  if (text[offset] !== '$') return false;
  switch (text[offset + 1]) {
    case '(':
      if (skipArithmetic(scan, offset + 1)) return true;
      scan.offset += 2;
      open(scan, 'substitution', []);
      return true;
    case '{':
      scan.offset += 2;
      open(scan, 'parameter');
      return true;
    case '[':
      scan.offset += 2;
      open(scan, 'bracket');
      return true;
    default:
      return false;
  }
}

/** Goes on after the closing quote at `index`; -1 is an unclosed one. */
function skipPast(scan: Scan, index: number): true {
  if (index === -1) scan.isBroken = true;
  scan.offset = index + 1;
  return true;
}

function unescapedIndex(text: string, character: string, from: number): number {
  for (let index = from; index < text.length; index += 1) {
    if (text[index] === '\\') index += 1;
    else if (text[index] === character) return index;
  }
  return -1;
}

/** `((` is arithmetic only if its end is `))` too; else it is a subshell in a subshell, as for bash. */
function skipArithmetic(scan: Scan, outer: number): boolean {
  if (!scan.text.startsWith('((', outer)) return false;
  const end = closingParenthesis(scan, outer);
  if (end === -1 || closingParenthesis(scan, outer + 1) !== end - 1) return false;
  scan.offset = end + 1;
  return true;
}

/**
 * The offset of the `)` for the `(` at `from`, or -1, read as arithmetic: quotes count, here-documents and `case` do
 * not. Remembers all pairs on its way, so that nested ones cost nothing.
 */
function closingParenthesis(scan: Scan, from: number): number {
  const { text, parentheses } = scan;
  const known = parentheses.get(from);
  if (known !== undefined) return known;
  const opened: number[] = [];
  let index = from;
  for (; index < text.length && scan.lookahead > 0; index += 1, scan.lookahead -= 1) {
    const top = opened.at(-1);
    const isQuoted = top !== undefined && text[top] === '"';
    const character = text[index];
    if (character === '\\') index += 1;
    else if (character === '"') {
      if (isQuoted) opened.pop();
      else opened.push(index);
    } else if (character === '(' && (!isQuoted || text[index - 1] === '$')) opened.push(index);
    else if (character === ')' && top !== undefined && !isQuoted) {
      parentheses.set(top, index);
      opened.pop();
      if (opened.length === 0) return index;
    } else if (character === '`' || (character === "'" && !isQuoted)) {
      const end = character === '`' ? unescapedIndex(text, '`', index + 1) : text.indexOf("'", index + 1);
      scan.lookahead -= (end === -1 ? text.length : end) - index;
      if (end === -1) break;
      index = end;
    }
  }
  for (const unclosed of opened) parentheses.set(unclosed, -1);
  return -1;
}

// Tokens

function stepTokens(scan: Scan, frame: Frame): void {
  const { text, offset } = scan;
  const character = text.charAt(offset);
  if (character === ' ' || character === '\t') {
    endWord(scan, frame);
    scan.offset += 1;
  } else if (character === '\n') readNewline(scan, frame);
  else if (character === '\\' && text[offset + 1] === '\n') scan.offset += 2;
  else if (character === '#' && beginsComment(scan, frame)) skipComment(scan);
  else if (isProcessSubstitution(scan)) {
    startWord(scan, frame);
    frame.isPlain = false;
    scan.offset += 2;
    open(scan, 'substitution', []);
  } else if ('()'.includes(character)) readParenthesis(scan, frame, character);
  else if (';&|<>'.includes(character)) readOperator(scan, frame);
  else readWordPart(scan, frame, character);
}

function beginsComment(scan: Scan, frame: Frame): boolean {
  if (frame.wordStart !== -1 || frame.construct === 'glob') return false;
  return frame.construct !== 'condition' || ' \t\n'.includes(scan.text.charAt(scan.offset - 1));
}

function skipComment(scan: Scan): void {
  const newline = scan.text.indexOf('\n', scan.offset);
  scan.offset = newline === -1 ? scan.text.length : newline;
}

function isProcessSubstitution({ text, offset }: Scan): boolean {
  return (text[offset] === '<' || text[offset] === '>') && text[offset + 1] === '(';
}

function readWordPart(scan: Scan, frame: Frame, character: string): void {
  const isSubscript = character === '[' && beginsSubscript(scan, frame);
  startWord(scan, frame);
  if (isSubscript) {
    scan.offset += 1;
    frame.isPlain = false;
    open(scan, 'bracket');
  } else if (skipQuote(scan) || skipExpansion(scan)) frame.isPlain = false;
  else scan.offset += 1;
}

/** `x[` where an assignment may stand: bash reads to the `]`, over blanks and all. */
function beginsSubscript({ text, offset }: Scan, frame: Frame): boolean {
  if (frame.wordStart === -1 || !frame.isPlain) return false;
  if (!isList(frame) || !COMMAND_POSITIONS.has(frame.position)) return false;
  return offset - frame.wordStart < 256 && /^[A-Za-z_]\w*$/.test(text.slice(frame.wordStart, offset));
}

function startWord(scan: Scan, frame: Frame): void {
  if (frame.wordStart !== -1) return;
  frame.wordStart = scan.offset;
  frame.isPlain = true;
  markCommand(scan, frame);
}

function markCommand(scan: Scan, frame: Frame): void {
  if (frame.construct === 'top' && scan.commandStart === -1) scan.commandStart = scan.offset;
}

function endWord(scan: Scan, frame: Frame): void {
  if (frame.wordStart === -1) return;
  const { wordStart, redirection } = frame;
  frame.wordStart = -1;
  if (redirection !== '') return endRedirection(scan, frame, wordStart, redirection);
  const isShort = scan.offset - wordStart <= LONGEST_RESERVED_WORD;
  // The empty string is no word that anything below knows.
  const word = frame.isPlain && isShort ? scan.text.slice(wordStart, scan.offset).replaceAll('\\\n', '') : '';
  if (isList(frame)) readCommandWord(scan, frame, word);
  else readHeaderWord(scan, frame, word);
}

function endRedirection(scan: Scan, frame: Frame, wordStart: number, redirection: Frame['redirection']): void {
  frame.redirection = '';
  if (redirection === '<') return;
  const raw = scan.text.slice(wordStart, scan.offset);
  frame.heredocs.push({
    delimiter: withoutQuotes(raw),
    isQuoted: /["'\\]/.test(raw),
    stripsTabs: redirection === '<<-',
  });
}

function withoutQuotes(word: string): string {
  return word.replace(
    /\$?'([^']*)'|\$?"((?:[^"\\]|\\.)*)"|\\(.)/gs,
    (_, single?: string, double?: string, escaped?: string) =>
      single ?? double?.replace(/\\([$`"\\])/g, '$1') ?? escaped ?? '',
  );
}

// Grammar

/** Meant for frames that are read by tokens, not for quoting. */
function isList({ construct }: Frame): boolean {
  return !HEADERS.has(construct) && !LOOSE.has(construct);
}

function readCommandWord(scan: Scan, frame: Frame, word: string): void {
  const { position } = frame;
  const isReservable = position === 'closed' || COMMAND_POSITIONS.has(position);
  const successor = isReservable ? SUCCESSORS.get(`${frame.construct} ${word}`) : undefined;
  if (successor !== undefined) goOn(scan, frame, successor);
  else if (position === 'closed' || position === 'redirected') scan.isBroken = true;
  else if (position === 'function') frame.position = 'functionName';
  else if (COMMAND_POSITIONS.has(position)) readFirstWord(scan, frame, word);
  else frame.position = 'arguments';
}

function goOn(scan: Scan, frame: Frame, successor: Construct | 'closed'): void {
  const mayBeEmpty = frame.construct === 'clause';
  if (UNFINISHED.has(frame.position) || !(frame.isFilled || mayBeEmpty)) scan.isBroken = true;
  if (successor === 'closed') closeCompound(scan);
  else enter(frame, successor);
}

function readFirstWord(scan: Scan, frame: Frame, word: string): void {
  const { position } = frame;
  frame.isFilled = true;
  const opened = OPENERS.get(word);
  if (opened !== undefined) open(scan, opened);
  else if (MISPLACED.has(word) || position === 'body' || position === 'functionName') scan.isBroken = true;
  else if (word === '!' && position === 'piped') scan.isBroken = true;
  else if (position === 'coproc') frame.position = 'coprocName';
  else if (position === 'coprocName') frame.position = 'arguments';
  else if (word === '!' || word === 'time') frame.position = 'prefix';
  else if (word === 'coproc' || word === 'function') frame.position = word;
  else if (position !== 'prefix' || (word !== '-p' && word !== '--')) frame.position = 'command';
}

function readHeaderWord(scan: Scan, frame: Frame, word: string): void {
  switch (frame.construct) {
    case 'for':
      frame.construct = 'forIn';
      return;
    case 'forIn':
      if (word === 'in') frame.construct = 'forWords';
      else if (word === 'do') enter(frame, 'do');
      else scan.isBroken = true;
      return;
    case 'forDo':
      if (word === 'do') enter(frame, 'do');
      else if (word === '{') enter(frame, 'brace');
      else scan.isBroken = true;
      return;
    case 'case':
      frame.construct = 'caseIn';
      return;
    case 'caseIn':
      if (word === 'in') enter(frame, 'pattern');
      else scan.isBroken = true;
      return;
    case 'pattern':
      if (word === 'esac' && !frame.isFilled) closeCompound(scan);
      else frame.isFilled = true;
      return;
    case 'condition':
      if (word === ']]') closeCompound(scan);
      return;
    default:
  }
}

function readNewline(scan: Scan, frame: Frame): void {
  endWord(scan, frame);
  // The word may have opened or closed something.
  const after = current(scan);
  const end = scan.offset;
  scan.offset += 1;
  const commandEnd = readHeredocs(scan, after) ?? end;
  if (isList(after)) {
    if (after.position === 'function' || after.position === 'coproc' || after.redirection !== '') scan.isBroken = true;
    if (UNFINISHED.has(after.position)) return;
    after.position = 'start';
    completeCommand(scan, commandEnd);
  } else if (after.construct === 'forWords') after.construct = 'forDo';
  else if (after.construct === 'for' || after.construct === 'case') scan.isBroken = true;
}

/** A newline, or the end of the text, after a command at top level. */
function completeCommand(scan: Scan, end: number): void {
  if (scan.frames.length > 1 || scan.commandStart === -1) return;
  scan.commands.push({ start: scan.commandStart, end });
  scan.commandStart = -1;
}

function readParenthesis(scan: Scan, frame: Frame, character: string): void {
  if (character === '(' && frame.wordStart !== -1 && opensWordGroup(scan, frame)) return;
  endWord(scan, frame);
  const after = current(scan);
  if (after.construct === 'condition') scan.offset += 1;
  else if (after.redirection !== '') scan.isBroken = true;
  else if (character === ')') closeParenthesis(scan, after);
  else openParenthesis(scan, after);
}

/** The parentheses of `x=( )` and of `@( )`, which are parts of a word. */
function opensWordGroup(scan: Scan, frame: Frame): boolean {
  const { text, offset } = scan;
  const before = text.charAt(offset - 1);
  const isNegation =
    before === '!' && offset - 1 === frame.wordStart && COMMAND_POSITIONS.has(frame.position) && isList(frame);
  if (before !== '=' && (!'@!?*+'.includes(before) || isNegation)) return false;
  scan.offset += 1;
  frame.isPlain = false;
  open(scan, before === '=' ? 'array' : 'glob');
  return true;
}

function openParenthesis(scan: Scan, frame: Frame): void {
  if (frame.construct === 'glob' || frame.construct === 'array') {
    scan.offset += 1;
    open(scan, frame.construct);
  } else if (frame.construct === 'pattern' && !frame.isFilled) {
    // From here on `esac` is a pattern.
    frame.isFilled = true;
    scan.offset += 1;
  } else if (frame.construct === 'for' && skipArithmetic(scan, scan.offset)) afterCompound(frame);
  else if (isList(frame)) openCommandParenthesis(scan, frame);
  else scan.isBroken = true;
}

function openCommandParenthesis(scan: Scan, frame: Frame): void {
  const isDefinition = frame.position === 'command' || frame.position === 'functionName';
  if (isDefinition && skipEmptyParentheses(scan)) frame.position = 'body';
  else if (!COMMAND_POSITIONS.has(frame.position)) scan.isBroken = true;
  else {
    markCommand(scan, frame);
    frame.isFilled = true;
    if (skipArithmetic(scan, scan.offset)) return afterCompound(frame);
    scan.offset += 1;
    open(scan, 'subshell');
  }
}

function skipEmptyParentheses(scan: Scan): boolean {
  let index = scan.offset + 1;
  while (scan.text[index] === ' ' || scan.text[index] === '\t') index += 1;
  if (scan.text[index] !== ')') return false;
  scan.offset = index + 1;
  return true;
}

function closeParenthesis(scan: Scan, frame: Frame): void {
  scan.offset += 1;
  switch (frame.construct) {
    case 'subshell':
      if (!frame.isFilled || UNFINISHED.has(frame.position)) scan.isBroken = true;
      return closeCompound(scan);
    case 'substitution':
      if (frame.heredocs.length > 0 || UNFINISHED.has(frame.position)) scan.isBroken = true;
      return closeInWord(scan);
    case 'array':
    case 'glob':
      return closeInWord(scan);
    case 'pattern':
      if (!frame.isFilled) scan.isBroken = true;
      return enter(frame, 'clause');
    default:
      scan.isBroken = true;
  }
}

function readOperator(scan: Scan, frame: Frame): void {
  const [operator = ''] = OPERATOR.exec(scan.text.slice(scan.offset, scan.offset + LONGEST_OPERATOR)) ?? [];
  const isRedirection = operator.includes('<') || operator.includes('>');
  const isLoose = LOOSE.has(frame.construct);
  if (isRedirection && !isLoose) dropDescriptor(scan, frame);
  endWord(scan, frame);
  const after = current(scan);
  // `]]&&` has ended the condition.
  if (isLoose && after === frame) scan.offset += 1;
  else if (!isList(after)) readHeaderOperator(scan, after, operator);
  else if (after.redirection !== '') scan.isBroken = true;
  else if (isRedirection) readRedirection(scan, after, operator);
  else readSeparator(scan, after, operator);
}

/** In `2>` and `{fd}>` the word is no argument. */
function dropDescriptor(scan: Scan, frame: Frame): void {
  if (frame.wordStart === -1 || scan.offset - frame.wordStart > 64) return;
  if (/^(?:\d+|\{\w+\})$/.test(scan.text.slice(frame.wordStart, scan.offset))) frame.wordStart = -1;
}

function readHeaderOperator(scan: Scan, frame: Frame, operator: string): void {
  scan.offset += operator.length;
  const { construct } = frame;
  if (operator === ';' && (construct === 'forIn' || construct === 'forWords')) frame.construct = 'forDo';
  else if (operator === ';' && construct === 'forDo') return;
  else if (operator !== '|' || construct !== 'pattern') scan.isBroken = true;
}

function readRedirection(scan: Scan, frame: Frame, operator: string): void {
  markCommand(scan, frame);
  scan.offset += operator.length;
  frame.isFilled = true;
  frame.redirection = operator === '<<' || operator === '<<-' ? operator : '<';
  if (frame.position === 'closed') frame.position = 'redirected';
  else if (frame.position === 'body' || frame.position === 'function' || frame.position === 'functionName')
    scan.isBroken = true;
  else if (frame.position !== 'redirected') frame.position = 'arguments';
}

function readSeparator(scan: Scan, frame: Frame, operator: string): void {
  scan.offset += operator.length;
  if (operator.startsWith(';') && operator !== ';') {
    if (frame.construct !== 'clause' || UNFINISHED.has(frame.position)) scan.isBroken = true;
    return enter(frame, 'pattern');
  }
  if (frame.position === 'start' || UNFINISHED.has(frame.position)) scan.isBroken = true;
  if (operator === ';' || operator === '&') frame.position = 'start';
  else frame.position = operator === '&&' || operator === '||' ? 'operand' : 'piped';
}

// Here-documents

/** Skips the bodies that begin here; the offset after the last delimiter, or undefined if there are none. */
function readHeredocs(scan: Scan, frame: Frame): number | undefined {
  if (frame.heredocs.length === 0) return undefined;
  const isInSubstitution = frame.heredocs !== scan.frames[0]?.heredocs;
  let end = scan.offset;
  for (const heredoc of frame.heredocs.splice(0)) end = readHeredoc(scan, heredoc, isInSubstitution);
  return end;
}

function readHeredoc(scan: Scan, heredoc: Heredoc, isInSubstitution: boolean): number {
  const { text } = scan;
  while (scan.offset < text.length) {
    const start = scan.offset;
    const end = logicalLineEnd(text, start, heredoc);
    scan.offset = end + 1;
    const from = heredoc.stripsTabs ? afterTabs(text, start) : start;
    if (!text.startsWith(heredoc.delimiter, from)) continue;
    const rest = from + heredoc.delimiter.length;
    if (rest === end) return end;
    // As `E)` at the end of `$(cat <<E`: bash allows it.
    if (isInSubstitution && text.slice(rest, end).includes(')')) return (scan.offset = rest);
  }
  scan.isBroken = true;
  return text.length;
}

/** Where the line ends; a backslash joins the next one to it, unless the delimiter is quoted. */
function logicalLineEnd(text: string, start: number, { isQuoted }: Heredoc): number {
  let end = lineEnd(text, start);
  while (!isQuoted && end < text.length && hasOddBackslashes(text, start, end)) end = lineEnd(text, end + 1);
  return end;
}

function lineEnd(text: string, start: number): number {
  const newline = text.indexOf('\n', start);
  return newline === -1 ? text.length : newline;
}

function hasOddBackslashes(text: string, start: number, end: number): boolean {
  let first = end;
  while (first > start && text[first - 1] === '\\') first -= 1;
  return (end - first) % 2 === 1;
}

function afterTabs(text: string, start: number): number {
  let index = start;
  while (text[index] === '\t') index += 1;
  return index;
}
