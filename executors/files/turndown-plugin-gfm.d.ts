declare module '@joplin/turndown-plugin-gfm' {
  import type { Plugin } from 'turndown';

  /** Tables of GitHub Flavored Markdown; the package has no types of its own. */
  const plugins: { readonly tables: Plugin };
  export default plugins;
}
