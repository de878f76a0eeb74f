/** A `Content-Disposition` that saves under this name, whatever script it is in (RFC 6266). */
export function attachment(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/g, '_').replaceAll(/["\\]/g, String.raw`\$&`);
  const isPlain = /^[\x20-\x7e]*$/.test(name);
  return `attachment; filename="${plain}"${isPlain ? '' : `; filename*=UTF-8''${encoded(name)}`}`;
}

function encoded(name: string): string {
  const wellFormed = Buffer.from(name).toString('utf8');
  return encodeURIComponent(wellFormed).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
