import type { BrowseAction, BrowseInteractiveAction } from '../../src/protocol/actions.ts';
import { toAddress } from './address.ts';
import { type Call, readCalls } from './calls.ts';

export type BrowserAction = BrowseAction | BrowseInteractiveAction;

/** The action as it stands in `last_browser_action` (V0 §8.8). */
export function sourceOf(action: BrowserAction): string {
  if (action.action === 'browse_interactive') return action.args.browser_actions;
  const { url } = action.args;
  try {
    return `goto("${toAddress(url)}")`;
  } catch {
    return `goto("${url}")`;
  }
}

/** @throws ActionFault for what is no call */
export function callsOf(action: BrowserAction, source: string): Call[] {
  return action.action === 'browse' ? [{ name: 'goto', args: { url: action.args.url } }] : readCalls(source);
}
