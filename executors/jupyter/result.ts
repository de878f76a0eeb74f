import type { ActionResult } from '../../src/dispatch/executor.ts';
import type { RunIpythonAction } from '../../src/protocol/actions.ts';
import { ipythonObservation } from '../../src/protocol/observations.ts';
import { type CellOutput, cutText } from './cell-run.ts';
import * as texts from './texts.ts';

/** One cell that was run. */
export interface CellReport {
  readonly index: number;
  readonly status: 'ok' | 'error';
  readonly output: CellOutput;
  /** What is said below its output. */
  readonly notes: readonly string[];
  readonly durationMs: number;
  /** No further cell can follow: time is up, or the kernel is gone. */
  readonly isLast: boolean;
}

export interface AnswerParts {
  readonly action: RunIpythonAction;
  readonly codes: readonly string[];
  readonly reports: readonly CellReport[];
  /** What is said before everything. */
  readonly notes: readonly string[];
  readonly cwd: string;
  readonly interpreter: string;
}

/** The observation of V0 §6.4, and beside it the full outputs. */
export function answer({ action, codes, reports, notes, cwd, interpreter }: AnswerParts): ActionResult {
  const { args } = action;
  const last = reports.at(-1);
  const blocks = [...notes, ...reports.flatMap(({ output, notes: below }) => [output.text, ...below])];
  if (last && reports.length < codes.length) blocks.push(texts.stoppedCells(reports.length, codes.length));
  const joined = blocks.filter((text) => text !== '').join('\n');
  const cut = cutText(joined, '', true);
  const file = reports.find(({ output }) => output.file !== undefined)?.output.file;
  const isCut = cut.isCut || reports.some(({ output }) => output.isCut);
  const text = (cut.text === '' ? texts.NO_OUTPUT : cut.text) + (file ? texts.cutNote(file) : '');
  const images = reports.flatMap(({ output }) => output.images);
  const outputs = reports.flatMap(({ output }) => output.outputs);
  return {
    observation: ipythonObservation({
      code: args.cells === undefined ? args.code : codes.join('\n'),
      content: args.include_extra ? text + texts.extras(cwd, interpreter) : text,
      imageUrls: images.length > 0 ? images : null,
    }),
    ...(outputs.length > 0 ? { outputs } : {}),
    ...(args.cells === undefined ? {} : { cells: codes.map((_, index) => cellReply(reports[index])) }),
    ...(isCut ? { truncated: true } : {}),
    ...(file ? { output_file: file.path } : {}),
  };
}

function cellReply(report: CellReport | undefined): object {
  if (report === undefined) return { status: 'skipped' };
  const { status, output, notes, durationMs } = report;
  const content = [output.text, ...notes].filter((text) => text !== '').join('\n');
  return {
    status,
    content: content === '' ? texts.NO_OUTPUT : content,
    image_urls: output.images.length > 0 ? output.images : null,
    duration_ms: Math.round(durationMs * 1000) / 1000,
    ...(output.file ? { output_file: output.file.path } : {}),
  };
}
