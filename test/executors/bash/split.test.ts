import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { splitCommands } from '../../../executors/bash/split.ts';

/** Each is one complete command, and bash is asked whether that is so. Names say what the entry is there for. */
const SINGLE: Readonly<Record<string, string>> = {
  simple: 'ls -l',
  sequence: 'echo a; echo b',
  'trailing semicolon': 'echo a;',
  'and, or': 'true && echo a || echo b',
  'and, then newline': 'true &&\n\necho a',
  'or, then comment': 'false || # no\n# really\necho a',
  background: 'sleep 0 &',
  'background, then another': 'sleep 0 & echo a',
  pipeline: 'echo a | cat',
  'pipe, then newline': 'echo a |\n  cat |& cat',
  negation: '! false',
  'negated group': '! { false; }',
  time: 'time -p -- echo a',
  'time of a compound': 'time for i in 1\ndo :\ndone',
  coproc: 'coproc cat',
  'named coproc': 'coproc NAME {\n  cat\n}',
  continuation: "echo \\\n -e 'hello world'",
  'continuation in a word': 'ec\\\nho a',
  'continued reserved word': 'wh\\\nile false; do\n:\ndone',
  'escaped newline in double quotes': 'echo "a \\\n b"',
  'double quotes': 'echo -e "hello\n\n\nworld"',
  'single quotes': "echo 'a\n\"b\n`c'",
  'escaped double quote': 'echo "a \\" \n b"',
  'ANSI-C quotes': "echo $'it\\'s\na'",
  'locale quotes': 'echo $"a\nb"',
  'quoted operators': `echo '&&' "|" \\; \\& '('`,
  'trailing escaped blank': 'echo a\\ ',
  'trailing comment': 'echo hi # c',
  'comment with quotes and parentheses': `echo hi # it's "a ( $(`,
  'no comment within a word': 'echo a#b $# ${#x}',
  for: 'for i in 1 2\ndo\n  echo $i\ndone',
  'for without in': 'for i\ndo echo $i; done',
  'for with a brace': 'for i in 1; {\n  echo $i\n}',
  'arithmetic for': 'for ((i = 0; i < 3; i++))\ndo\n  echo $i\ndone',
  'arithmetic for with a brace': 'for ((;;)) {\n break\n}',
  while: 'while read -r line\ndo\n  echo "$line"\ndone < /dev/null',
  until: 'until true; do\n  :\ndone 2>&1 | cat',
  select: 'select x in a b\ndo\n  break\ndone < /dev/null',
  if: 'if true\nthen\n  echo a\nelif false; then\n  echo b\nelse\n  echo c\nfi',
  'nested if': 'if if true; then false; fi\nthen\n  :\nfi',
  'reserved words as arguments': 'echo if then else fi for do done case esac { } [[ ! function',
  'reserved words as loop words': 'for do in do done in; do echo $do; done',
  case: 'case x in\n  a) echo a ;;\n  (b|c)\n    echo b\n    ;&\n  "d e" | $x) ;;&\n  *) echo \\)\nesac',
  'case on one line': 'case x in x) echo x;; esac',
  'empty case': 'case x in\n# nothing\nesac',
  'esac as a pattern': 'case esac in (esac) echo a\nesac',
  'group, then redirection': '{\n  echo a\n  echo b\n} > /dev/null',
  'closing braces in a row': '{ { echo a\n} }',
  'braces that do not group': 'echo {a,b} {} }',
  subshell: '(\n  cd /\n  pwd\n)',
  'subshell in a subshell': '( (echo a\necho b); echo c)',
  'double parenthesis of subshells': '((echo a); echo b\n)',
  function: 'f() {\n  echo a\n}',
  'function, brace on the next line': 'f()\n\n# body\n{\n  echo a\n}',
  'function with blanks': 'f ( ) ( echo a\n)',
  'function keyword': 'function f\n{\n  echo a\n}',
  'function keyword with parentheses': 'function f() if true; then\n:\nfi',
  heredoc: 'cat << EOF\nline 1\nline 2\nEOF',
  'heredoc of hostile text': `cat <<EOF\nit's "a ( \\$( fi done\n EOF\nEOF \nEOF`,
  'heredoc with a quoted delimiter': "cat <<'E F'\n$(\\\n`\nE F",
  'heredoc with a half-quoted delimiter': 'cat <<E"O"\\F\na\\\nEOF',
  'heredoc with a continued line': 'cat <<EOF\na\\\nEOF\nEOF',
  'heredoc with tabs': 'cat <<-EOF\n\ta\n\t\tEOF',
  'two heredocs': 'cat <<A - <<"B"\na\nB\nA\nb\nA\nB',
  'heredoc, then more of the line': 'cat <<EOF | tr a b && echo c\na\nEOF',
  'heredoc, then a continued list': 'cat <<EOF &&\na\nEOF\necho b',
  'heredoc in a substitution': 'echo "$(cat <<EOF\n)\nEOF\n)"',
  'heredoc in a loop': 'while true; do\n  cat <<EOF\ndone\nEOF\n  break\ndone',
  'heredoc beside a substitution over lines': 'cat <<EOF $(\necho a\n)\nbody\nEOF',
  'here-string': 'cat <<< "a\nb"',
  'here-string without blanks': 'cat <<<EOF',
  descriptors: 'echo a 2>&1 >&- {fd}</dev/null &>/dev/null',
  'redirection first': '> /dev/null echo if',
  'arithmetic expansion': 'x=$((1 + (2\n* 3)))',
  'shift, not heredoc': 'echo $((1 << 2))',
  'arithmetic command': '((x = 1 <\n2))',
  'old arithmetic': 'echo $[ (1) +\n2 ]',
  condition: '[[ a == b ||\n  # c\n  ( -n x && x < y ) ]]',
  'condition with a regex': '[[ $x =~ ^(a|b)#c$ ]]',
  'condition, then list': 'if [[ a ]] then\n:\nfi',
  array: 'x=(1\n  2 # )\n  "3\n4" $(echo 5))',
  'appended array': "declare -A x+=(\n[a]='b'\n[c]=d)",
  subscript: 'x[(1 + 2) * 3]=4',
  'parameter expansion': 'echo ${x:-"a\nb"} ${x/(/\\}} ${#x}',
  'quoted parameter expansion': `echo "\${x:-'}\n'} \${y:-"b"}"`,
  substitution: 'x=$(\n  echo a\n  echo b\n)',
  'case in a substitution': 'echo "$(case a in a) echo ")"\n;; esac)"',
  'comment in a substitution': "echo $(\n# it's )\necho a\n)",
  'subshell in a substitution': 'echo $((echo a); echo b\n)',
  backticks: 'echo `echo a\necho \\`date\\``',
  'process substitution': 'diff <(echo a\necho b) >(cat)',
  'process substitution as a target': 'cat < <(echo a\n)',
  extglob: 'echo @(a|b\n) !(c) x?(d|(e)) +(f)',
  unicode: 'echo "héllo 🦊\n世界"',
};

const SNIPPETS = Object.entries(SINGLE);

/** The seven commands of V0's test of several multi-line commands at once. */
const SEVEN = [
  'ls -l',
  'echo -e "hello\nworld"',
  `echo -e "hello it's me"`,
  "echo \\\n -e 'hello world'",
  'echo -e "hello\\nworld\\nare\\nyou\\nthere?"',
  'echo -e "hello\nworld\n\nare\nyou\n\nthere?"',
  "echo -e 'hello\nworld \"'",
];

const WORDS =
  'if then fi do done for in case esac { } ( ) (( )) [[ ]] a x=( ; ;; & && | || ! f() < <( @( ${ $( $(( <<E " \' ` \\';
const TOKENS = WORDS.split(' ').concat(' ', '\n', '\\\n', '\nE\n', '# c');

/** Bash warns, and does not fail, when a here-document has no end; text is on stdin so that a here-document may be its end. */
function isCompleteForBash(text: string): boolean {
  const { status, stderr } = spawnSync('bash', ['-O', 'extglob', '-n'], { input: text, encoding: 'utf8' });
  return status === 0 && stderr === '';
}

describe('one complete command', () => {
  test.each(SNIPPETS)('%s', (_, text) => {
    expect(isCompleteForBash(text)).toBe(true);
    expect(splitCommands(text)).toEqual([text]);
    expect(splitCommands(`\n \n${text}\n\n`)).toHaveLength(1);
  });

  test.each(SNIPPETS.filter(([, text]) => text.includes('\n')))('%s: no line less', (_, text) => {
    const lines = text.split('\n');
    for (let count = 1; count < lines.length; count += 1) {
      const first = lines.slice(0, count).join('\n');
      const rest = lines.slice(count).join('\n');
      const isSplittable = isCompleteForBash(`${first}\n`) && /[^\s#]/.test(rest) && isCompleteForBash(`${rest}\n`);
      // `a \` is complete only when the text ends there.
      if (!first.endsWith('\\')) expect(isSplittable, first).toBe(false);
    }
  });

  test('is what a comment leaves', () => {
    expect(splitCommands('echo hi # c\n# another')).toEqual(['echo hi # c\n# another']);
    expect(splitCommands('# look first\necho commented')).toHaveLength(1);
    expect(splitCommands('#!/bin/bash\n\n# a\n\n  # b\necho a\n# c\n\n# d\n')).toHaveLength(1);
  });
});

describe('several commands', () => {
  test.each([
    ['V0 §5.8', SEVEN],
    ['one after another', ['echo a', 'echo b', 'echo c']],
    ['assignments', ['x=$((1+2))', 'echo $x']],
    ['heredocs', ['cat <<A\na\nA', "cat <<'B'\nb\nB"]],
    ['a heredoc that a blank line ends', ["cat <<''\na\n", 'echo b']],
    ['background', ['sleep 1 &', 'wait']],
    ['semicolons', ['echo a;', 'echo b;']],
    ['escaped blanks', ['echo a\\ ', 'echo b']],
    ['a comment between', ['echo a\n# for a', 'echo b # for b']],
    ['a carriage return', ['echo a\r', 'echo b']],
    ['a directory change and a loop', ['cd /', 'for f in *; do\n  echo $f\ndone', 'pwd']],
  ])('%s', (_, commands) => {
    expect(splitCommands(commands.join('\n'))).toEqual(commands);
    expect(splitCommands(`\n${commands.join('\n')}\n\n`)).toEqual(commands);
  });

  test("blank lines and indentation between them are nobody's", () => {
    expect(splitCommands('  echo a  \n\n \t\n  echo b\n\\\n\n')).toEqual(['  echo a  ', 'echo b']);
  });

  test('any two of the table give two', () => {
    for (const [, first] of SNIPPETS) {
      for (const [, second] of SNIPPETS) {
        expect(splitCommands(`${first}\n${second}`)).toEqual([first, second]);
      }
    }
  });

  test('any list of the table gives that list, whatever blank lines and comments are between', () => {
    const command = fc.constantFrom(...SNIPPETS.map(([, text]) => text));
    const gap = fc.constantFrom('\n', '\n\n', '\n \t\n', "\n# it's a (comment\n");
    fc.assert(
      fc.property(fc.array(fc.tuple(command, gap), { minLength: 1, maxLength: 8 }), (parts) => {
        const text = parts.map(([part, between]) => part + between).join('');
        const entries = splitCommands(text);
        expect(entries).toHaveLength(parts.length);
        entries.forEach((entry, index) => expect(entry.startsWith(parts[index]?.[0] ?? '')).toBe(true));
      }),
    );
  });

  test('nest in any way into one', () => {
    const simple = fc.constantFrom(...SNIPPETS.map(([, text]) => text));
    const wrap = fc.constantFrom(
      (text: string) => `{\n${text}\n}`,
      (text: string) => `(\n${text}\n)`,
      (text: string) => `if true; then\n${text}\nfi`,
      (text: string) => `for i in 1; do\n${text}\ndone`,
      (text: string) => `case a in\na)\n${text}\n;;\nesac`,
      (text: string) => `echo "$(\n${text}\n)"`,
      (text: string) => `f() {\n${text}\n} > /dev/null`,
      (text: string) => `cat <(\n${text}\n) \${x:-$(\n${text}\n)}`,
    );
    fc.assert(
      fc.property(simple, fc.array(wrap, { minLength: 1, maxLength: 5 }), (text, wraps) => {
        const nested = wraps.reduce((inner, each) => each(inner), text);
        expect(splitCommands(nested)).toEqual([nested]);
        expect(splitCommands(`${nested}\n${nested}`)).toEqual([nested, nested]);
      }),
    );
  });
});

describe('no command', () => {
  test.each(['', ' ', '\n\n \t\n', '# only a comment', '\n# one\n  # two\n', '\\\n'])('%j', (text) => {
    expect(splitCommands(text)).toEqual([]);
  });
});

describe('open or wrong text stays whole', () => {
  test.each([
    'echo "a',
    "echo 'a",
    'echo `a',
    'echo $(a',
    'echo ${a',
    'echo $((1',
    "echo $'a\\'",
    'x=(1',
    'x[1',
    '((1',
    '[[ a',
    'cat <(a',
    'echo @(a',
    '( a',
    '{ a',
    '{ a }',
    'if a',
    'if a; then b',
    'if a; then b; else',
    'while a; do b',
    'while a; done',
    'for',
    'for i',
    'for i in',
    'for i in a; b',
    'for ((;;))',
    'case',
    'case a',
    'case a in',
    'case a in a) b',
    'case a in a) b;;',
    'case a b',
    'f()',
    'f() b',
    'function',
    'function f',
    'a &&',
    'a ||',
    'a |',
    'a && && b',
    'a | ! b',
    'a | | b',
    '&& a',
    '; a',
    '& a',
    'a; ; b',
    'a ;; b',
    'cat <<E',
    'cat <<E\na',
    'cat <<-E\n E',
    'cat <',
    'cat < ; a',
    'cat > && a',
    'coproc',
    ')',
    '}',
    'fi',
    'done',
    'esac',
    'then',
    'do',
    'elif',
    'else',
    ']]',
    'in',
    ';;',
    '()',
    '( )',
    'if; then a; fi',
    'if a; then fi',
    'while a; do done',
    '{ }',
    '(a) b',
    '(a)(b)',
    '{ a; } b',
    '{ { a; } > /dev/null }',
    'a (b)',
    'if a; then b; fi fi',
    'case a in ) b;; esac',
    '$(a &&)',
    'a)',
  ])('%j', (text) => {
    expect(isCompleteForBash(`${text}\n`)).toBe(false);
    expect(splitCommands(text)).toEqual([text]);
    expect(splitCommands(`echo first\n${text}`)).toEqual([`echo first\n${text}`]);
  });
});

describe('size', () => {
  // What takes a time that grows with the square of the size does not end within the limit of a test.
  test.each<[string, string, number]>([
    ['1 MB of arguments', `echo ${'word '.repeat(200_000)}`, 1],
    ['1 MB in one word', `echo ${'x'.repeat(1_000_000)}`, 1],
    ['1 MB of double quotes', `echo "${'a\n'.repeat(500_000)}"`, 1],
    ['1 MB of backslashes', `echo ${'\\\\'.repeat(500_000)}`, 1],
    ['1 MB of blank lines', `echo a${'\n'.repeat(1_000_000)}echo b`, 2],
    ['1 MB of comments', `echo a\n${"# it's\n".repeat(150_000)}echo b`, 2],
    ['1 MB of brackets', `${'a[1]'.repeat(250_000)}=1`, 1],
    ['a heredoc of 6000 lines', `cat <<EOF > /dev/null\n${'some text (\n'.repeat(6000)}EOF\necho b`, 2],
    ['a heredoc of backslashes', `cat <<EOF\n${'\\'.repeat(1_000_000)}\nEOF`, 1],
    ['100,000 commands', 'echo a\n'.repeat(100_000), 100_000],
    ['10,000 parentheses', `${'( '.repeat(10_000)}a${' )'.repeat(10_000)}\necho b`, 2],
    ['10,000 parentheses without blanks', `${'('.repeat(10_000)}a${')'.repeat(10_000)}\necho b`, 2],
    ['10,000 substitutions', `echo ${'$('.repeat(10_000)}a${')'.repeat(10_000)}\necho b`, 2],
    ['10,000 quoted substitutions', `echo ${'"$(a '.repeat(10_000)}${')"'.repeat(10_000)}\necho b`, 2],
    ['10,000 groups', `${'{ '.repeat(10_000)}a${'; }'.repeat(10_000)}\necho b`, 2],
    ['300,000 open parentheses', '('.repeat(300_000), 1],
    ['300,000 open arithmetic expansions', '$(('.repeat(300_000), 1],
    ['open arithmetic hidden by comments', "(( # '\n".repeat(100_000), 1],
    ['open arithmetic hidden by quotes', `"$(( '`.repeat(100_000), 1],
    ['100,000 open heredocs', 'cat <<E\n'.repeat(100_000), 1],
    ['100,000 heredocs at once', `cat ${'<<E '.repeat(100_000)}\n${'E\n'.repeat(100_000)}`, 1],
  ])('%s', (_, text, count) => {
    expect(splitCommands(text)).toHaveLength(count);
  });

  test('any text at all is kept, in order', () => {
    const token = fc.constantFrom(...TOKENS);
    fc.assert(
      fc.property(fc.array(token, { maxLength: 40 }), (tokens) => {
        const text = tokens.join('');
        let from = 0;
        for (const entry of splitCommands(text)) {
          const at = text.indexOf(entry, from);
          expect(at).toBeGreaterThanOrEqual(from);
          from = at + entry.length;
        }
      }),
      { numRuns: 2000 },
    );
  });
});
