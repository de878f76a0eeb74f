import type { Reporter, SerializedError, TestCase, TestModule, TestRunEndReason } from 'vitest/node';

interface Tally {
  passed: number;
  failed: number;
  readonly skipped: string[];
  /** Passed, but not at the first attempt: each is a fault of the product or of the test, to be looked into. */
  readonly repeated: string[];
}

function countTest(tally: Tally, test: TestCase): void {
  const result = test.result();
  switch (result.state) {
    case 'passed':
      tally.passed += 1;
      if ((test.diagnostic()?.retryCount ?? 0) > 0) tally.repeated.push(nameOf(test));
      break;
    case 'skipped': {
      const reason = result.note === undefined ? '' : ` [${result.note}]`;
      tally.skipped.push(`${nameOf(test)}${reason}`);
      break;
    }
    default:
      // 'pending' after the run means that it never ended.
      tally.failed += 1;
  }
}

function nameOf(test: TestCase): string {
  return `${test.module.relativeModuleId} > ${test.fullName}`;
}

/** Failures outside tests count one each: a file that does not load, a hook that throws, an error nobody caught. */
function countRun(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): Tally {
  const tally: Tally = { passed: 0, failed: unhandledErrors.length, skipped: [], repeated: [] };
  for (const module of modules) {
    tally.failed += module.errors().length;
    for (const suite of module.children.allSuites()) tally.failed += suite.errors().length;
    for (const test of module.children.allTests()) countTest(tally, test);
  }
  return tally;
}

/**
 * Ends the output with one line `N passed, N failed` (`, N skipped` when there are any), and names the skipped tests
 * above it, and those that passed at a second attempt. The exit code stays vitest's own; a run that fails without a failed test shows as one failure.
 */
export default class ClosingLineReporter implements Reporter {
  #tally: Tally = { passed: 0, failed: 0, skipped: [], repeated: [] };

  onInit(): void {
    // Other reporters and vitest's own warnings may print until the very end.
    process.once('exit', (code) => this.#print(code));
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    this.#tally = countRun(modules, unhandledErrors);
    if (reason !== 'passed' && this.#tally.failed === 0) this.#tally.failed = 1;
  }

  #print(exitCode: number): void {
    const { passed, failed, skipped, repeated } = this.#tally;
    const shownFailed = exitCode === 0 ? failed : Math.max(failed, 1);
    const lines = [
      ...repeated.map((name) => `not at the first attempt: ${name}`),
      ...skipped.map((name) => `skipped: ${name}`),
    ];
    const tail = skipped.length === 0 ? '' : `, ${skipped.length} skipped`;
    lines.push(`${passed} passed, ${shownFailed} failed${tail}`);
    process.stdout.write(`${lines.join('\n')}\n`);
  }
}
