/** Gives every element its id and says which ones a person would click (V0 §8.2). */
export function markElements({ prefix, clip, maxElements }) {
  const world = globalThis;
  let state = world.actiondState;
  if (state?.prefix !== prefix) {
    state = { ids: new WeakMap(), prefix, next: 0, nextFrame: 0, version: 0 };
    world.actiondState = state;
    const watched = state;
    const observer = new MutationObserver(() => (watched.version += 1));
    // Ids are attributes too, and styles change with every frame of an animation: neither counts.
    observer.observe(document, {
      subtree: true,
      childList: true,
      characterData: true,
      attributeFilter: [
        'class',
        'hidden',
        'disabled',
        'open',
        'src',
        'href',
        'aria-hidden',
        'aria-expanded',
        'aria-busy',
      ],
    });
  }
  const known = state;
  const letters = (index) => {
    let left = index;
    let text = '';
    do {
      text = String.fromCharCode(97 + (left % 26)) + text;
      left = Math.floor(left / 26) - 1;
    } while (left >= 0);
    return text.slice(0, 1) + text.slice(1).toUpperCase();
  };
  const elements = [];
  const collect = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (elements.length >= maxElements) return;
      elements.push(element);
      if (element.shadowRoot) collect(element.shadowRoot);
    }
  };
  collect(document);
  for (const element of elements) {
    let id = known.ids.get(element);
    if (id === undefined) {
      const isFrame = element.localName === 'iframe' || element.localName === 'frame';
      id = prefix + (isFrame ? letters(known.nextFrame++) : String(known.next++));
      known.ids.set(element, id);
    }
    if (element.getAttribute('bid') !== id) element.setAttribute('bid', id);
  }
  const width = window.innerWidth;
  const height = window.innerHeight;
  const left = clip ? Math.max(0, clip.x) : 0;
  const top = clip ? Math.max(0, clip.y) : 0;
  const right = clip ? Math.min(width, clip.x + clip.width) : width;
  const bottom = clip ? Math.min(height, clip.y + clip.height) : height;
  const tags = new Set(['input', 'textarea', 'select', 'button', 'a', 'iframe', 'video', 'li', 'td', 'option']);
  const parentOf = (node) => (node instanceof ShadowRoot ? node.host : node.parentNode);
  const hitAt = (x, y) => {
    let hit = document.elementFromPoint(x, y);
    while (hit?.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  };
  const marked = new Set();
  for (const element of elements) {
    const box = element.getBoundingClientRect();
    const x = box.left + box.width / 2;
    const y = box.top + box.height / 2;
    if (box.width * box.height < 20 || x < left || y < top || x >= right || y >= bottom) continue;
    const isCandidate =
      tags.has(element.localName) || element.hasAttribute('onclick') || getComputedStyle(element).cursor === 'pointer';
    if (!isCandidate) continue;
    let node = hitAt(x, y);
    while (node && node !== element) node = parentOf(node);
    if (!node) continue;
    let isInside = false;
    const above = [];
    for (let ancestor = parentOf(element); ancestor; ancestor = parentOf(ancestor)) {
      if (!(ancestor instanceof Element) || !marked.has(ancestor)) continue;
      if (ancestor.localName === 'button' || ancestor.localName === 'a') isInside = true;
      else above.push(ancestor);
    }
    if (isInside) continue;
    for (const ancestor of above) marked.delete(ancestor);
    marked.add(element);
  }
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return {
    url: location.href,
    focused: active?.getAttribute('bid') ?? null,
    width,
    height,
    version: known.version,
    marks: [...marked].map((element) => known.ids.get(element) ?? ''),
    isCut: elements.length >= maxElements,
  };
}
/** Resolves when the document is further than `from`, or after `limitMs`. @returns how far it is */
export function waitForDocument({ from, limitMs }) {
  const stages = ['loading', 'interactive', 'busy', 'complete'];
  const state = () => {
    if (document.readyState !== 'complete') return document.readyState;
    return document.querySelector('[aria-busy="true"]')?.checkVisibility() === true ? 'busy' : 'complete';
  };
  return new Promise((resolve) => {
    const end = () => {
      document.removeEventListener('readystatechange', look);
      clearTimeout(timer);
      resolve(state());
    };
    const look = () => {
      if (stages.indexOf(state()) > stages.indexOf(from)) end();
    };
    const timer = setTimeout(end, limitMs);
    document.addEventListener('readystatechange', look);
    look();
  });
}
/** How often the document has changed. */
export function readVersion() {
  return globalThis.actiondState?.version ?? 0;
}
/** Resolves when the document has not changed for `quietMs`, or after `limitMs`. @returns whether it was quiet */
export function waitForQuiet({ quietMs, limitMs }) {
  return new Promise((resolve) => {
    let timer = setTimeout(() => end(true), quietMs);
    const limit = setTimeout(() => end(false), limitMs);
    const observer = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(() => end(true), quietMs);
    });
    const end = (isQuiet) => {
      observer.disconnect();
      clearTimeout(timer);
      clearTimeout(limit);
      resolve(isQuiet);
    };
    observer.observe(document, { subtree: true, childList: true, characterData: true });
  });
}
/** Resolves when what was begun has been drawn: two frames, or `limitMs` where nothing is drawn. */
export function waitForFrames({ limitMs }) {
  return new Promise((resolve) => {
    setTimeout(resolve, limitMs);
    requestAnimationFrame(() => requestAnimationFrame(() => resolve()));
  });
}
/** Called on a frame's element: its id, and where its document is drawn. */
export function frameBox() {
  const box = this.getBoundingClientRect();
  const style = getComputedStyle(this);
  const pixels = (...names) =>
    names.reduce((sum, name) => sum + (Number.parseFloat(style.getPropertyValue(name)) || 0), 0);
  const left = pixels('border-left-width', 'padding-left');
  const top = pixels('border-top-width', 'padding-top');
  return {
    bid: this.getAttribute('bid'),
    x: box.x + left,
    y: box.y + top,
    width: box.width - left - pixels('border-right-width', 'padding-right'),
    height: box.height - top - pixels('border-bottom-width', 'padding-bottom'),
  };
}
