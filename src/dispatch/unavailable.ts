/** What is answered for an action type that no executor serves; the browser's text is V0's (V0 §8.1). */
export function unavailableText(actionType: string): string {
  switch (actionType) {
    case 'browse':
    case 'browse_interactive':
      return 'Browser functionality is not supported or disabled.';
    default:
      return `Action type ${JSON.stringify(actionType)} is not carried out by this server.`;
  }
}
