import { median, rounded } from './stats.mjs';

const BOUNDS = {
  atMost: { sign: '≤', isMet: (value, bound) => value <= bound },
  atLeast: { sign: '≥', isMet: (value, bound) => value >= bound },
};

/**
 * One row of the table.
 * @param target `{ what, unit, against?, ratio?: Bound, value?: Bound }`, a Bound being `{ atMost }` or `{ atLeast }`; without either the
 *   row is for information
 * @param measured `{ subject, baseline?, rounds?: { subject, baseline }[] }`; the ratio is that of subject and baseline, the rounds show
 *   how far it spreads
 * @throws TypeError for what is no number: a row that was not measured would count as met
 */
export function judge(
  { what, unit, against, ratio: ratioBound, value: valueBound },
  { subject, baseline, rounds = [] },
) {
  if (!Number.isFinite(subject)) throw new TypeError(`${what}: ${subject} is no measurement`);
  const ratio = baseline ? subject / baseline : undefined;
  const ratios = rounds.map((round) => round.subject / round.baseline);
  const checks = [check(ratio, ratioBound), check(subject, valueBound)].filter((each) => each !== undefined);
  return {
    what,
    unit,
    subject,
    baseline,
    against,
    ratio,
    spread: ratios.length > 1 ? [Math.min(...ratios), median(ratios), Math.max(...ratios)] : undefined,
    target: checks.map(({ text }) => text).join(', ') || undefined,
    isMet: checks.length === 0 ? undefined : checks.every((each) => each.isMet),
  };
}

function check(value, bound) {
  if (bound === undefined) return undefined;
  const [[kind, limit]] = Object.entries(bound);
  return { text: `${BOUNDS[kind].sign} ${limit}`, isMet: value !== undefined && BOUNDS[kind].isMet(value, limit) };
}

export function toMarkdown(results) {
  const head = ['scenario', 'what', 'actiond', 'baseline', 'ratio (min, median, max of rounds)', 'target', ''];
  const rows = results.flatMap(({ name, rows: measured }) => measured.map((row) => [name, ...cells(row)]));
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

function cells({ what, unit, subject, baseline, against, ratio, spread, target, isMet }) {
  const spreadText = spread ? ` (${spread.map(rounded).join(', ')})` : '';
  return [
    what,
    `${rounded(subject)} ${unit}`.trim(),
    baseline === undefined ? '' : `${rounded(baseline)} ${unit}${against ? ` (${against})` : ''}`.trim(),
    ratio === undefined ? '' : `${rounded(ratio)}${spreadText}`,
    target ?? '',
    isMet === undefined ? 'info' : isMet ? 'met' : '**missed**',
  ];
}
