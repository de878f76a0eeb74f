import type { FrameLocator, Locator, Page } from 'playwright-core';
import { ActionFault } from '../fault.ts';
import { LOOKUP_LIMIT_MS } from '../limits.ts';
import type { Scope } from '../scope.ts';
import { LimitError } from '../within.ts';

/** Frames' parts begin with a small letter; the element's own is a number, or is missing when a frame's element is meant. */
const BID = /^(?:[a-z][A-Z]*)*\d*$/;
const FRAME_PART = /[a-z][A-Z]*/g;

/** The element with an id, in whatever frame it is. @throws ActionFault ValueError when there is none */
export async function locate(scope: Scope, bid: string): Promise<Locator> {
  if (bid === '' || !BID.test(bid)) throw unknown(bid);
  const { page } = scope.tab;
  const locator = locatorOf(page, bid);
  try {
    const count = await scope.deadline.within(LOOKUP_LIMIT_MS, locator.count());
    if (count > 0) return locator.first();
  } catch (error) {
    if (!(error instanceof LimitError)) throw unknown(bid);
    throw new ActionFault(
      'TimeoutError',
      `The page did not answer within ${LOOKUP_LIMIT_MS} ms when it was asked for the element "${bid}".`,
    );
  }
  throw unknown(bid);
}

function locatorOf(page: Page, bid: string): Locator {
  const parts = bid.match(FRAME_PART) ?? [];
  const frames = /\d$/.test(bid) ? parts : parts.slice(0, -1);
  let prefix = '';
  let root: Page | FrameLocator = page;
  for (const part of frames) {
    prefix += part;
    root = root.frameLocator(`[bid="${prefix}"]`);
  }
  return root.locator(`[bid="${bid}"]`);
}

function unknown(bid: string): ActionFault {
  return new ActionFault('ValueError', `Could not find element with bid "${bid.slice(0, 100)}"`);
}
