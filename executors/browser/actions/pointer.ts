import type { CallArgs } from '../calls.ts';
import { ELEMENT_LIMIT_MS } from '../limits.ts';
import type { Scope } from '../scope.ts';
import { locate } from './locate.ts';

export async function click(scope: Scope, { bid, button, modifiers }: CallArgs<'click'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.click({ button, modifiers, timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

export async function dblclick(scope: Scope, { bid, button, modifiers }: CallArgs<'dblclick'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.dblclick({ button, modifiers, timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

export async function hover(scope: Scope, { bid }: CallArgs<'hover'>): Promise<void> {
  const element = await locate(scope, bid);
  await element.hover({ timeout: scope.deadline.left(ELEMENT_LIMIT_MS) });
}

/** By the wheel, where the mouse is. */
export async function scroll(scope: Scope, { delta_x: x, delta_y: y }: CallArgs<'scroll'>): Promise<void> {
  await scope.deadline.within(ELEMENT_LIMIT_MS, scope.tab.page.mouse.wheel(x, y));
}

/** As a hand does it: the two elements may be in different frames. */
export async function dragAndDrop(
  scope: Scope,
  { from_bid: from, to_bid: to }: CallArgs<'drag_and_drop'>,
): Promise<void> {
  const { mouse } = scope.tab.page;
  const source = await locate(scope, from);
  const target = await locate(scope, to);
  const { deadline } = scope;
  await source.hover({ timeout: deadline.left(ELEMENT_LIMIT_MS) });
  await deadline.within(ELEMENT_LIMIT_MS, mouse.down());
  try {
    await target.hover({ timeout: deadline.left(ELEMENT_LIMIT_MS) });
    // Pages look at the second movement over the target, too.
    await target.hover({ timeout: deadline.left(ELEMENT_LIMIT_MS) });
  } finally {
    await deadline.within(ELEMENT_LIMIT_MS, mouse.up());
  }
}
