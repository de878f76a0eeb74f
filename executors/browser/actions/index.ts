import type { Call, CallArgs, CallName } from '../calls.ts';
import type { Scope } from '../scope.ts';
import { clear, fill, focus, press, selectOption, uploadFile } from './form.ts';
import { goBack, goForward, goto } from './navigate.ts';
import { click, dblclick, dragAndDrop, hover, scroll } from './pointer.ts';
import { newTab, tabClose, tabFocus } from './tabs.ts';
import { noop, reportInfeasible, sendMsgToUser } from './talk.ts';

/** Every function of the action language; a missing one is a type error. */
const VERBS: { readonly [N in CallName]: (scope: Scope, args: CallArgs<N>) => Promise<void> } = {
  noop,
  goto,
  go_back: goBack,
  go_forward: goForward,
  click,
  dblclick,
  hover,
  focus,
  clear,
  fill,
  press,
  select_option: selectOption,
  scroll,
  drag_and_drop: dragAndDrop,
  upload_file: uploadFile,
  new_tab: newTab,
  tab_close: tabClose,
  tab_focus: tabFocus,
  send_msg_to_user: sendMsgToUser,
  report_infeasible: reportInfeasible,
};

/** Carries out one call. @throws what keeps it from being carried out */
export async function perform<N extends CallName>(scope: Scope, call: Extract<Call, { name: N }>): Promise<void> {
  await VERBS[call.name](scope, call.args as CallArgs<N>);
}
