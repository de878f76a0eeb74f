import type { CallArgs } from '../calls.ts';
import type { Scope } from '../scope.ts';

export async function newTab({ tabs }: Scope): Promise<void> {
  await tabs.openNew();
}

export async function tabClose({ tabs, tab }: Scope): Promise<void> {
  await tabs.close(tab);
}

export async function tabFocus({ tabs }: Scope, { index }: CallArgs<'tab_focus'>): Promise<void> {
  await tabs.focus(index);
}
