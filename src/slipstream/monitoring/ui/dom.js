// A view is a tree of plain objects; `render` makes the page look like it, with as few changes as it can.
//
// Text is only ever set as text: there is no way here to make markup of a string, and addresses of links are places in
// this page or files made by it. So whatever a message, a name or a header contains is shown, never run.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "indeterminate", "open", "tabIndex", "scrollTop"]);

/** An element: `h("a", {href: "#/", onclick}, "text", [more])`. Nothing, false and null are left out. */
export function h(tag, props, ...children) {
  return { tag, props: props || {}, key: props ? props.key : undefined, children: flat(children, []), node: null };
}

function flat(children, found) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flat(child, found);
    else if (typeof child === "object") found.push(child);
    else found.push({ text: String(child), node: null });
  }
  return found;
}

const drawn = new WeakMap(); // what an element's children were made from

const fresh = []; // to call when what was made is in the page

/** Make the children of an element look like these. */
export function render(element, ...children) {
  const next = flat(children, []);
  if (!drawn.has(element)) element.replaceChildren();
  reconcile(element, drawn.get(element) || [], next, element.namespaceURI === SVG);
  drawn.set(element, next);
  for (const made of fresh.splice(0)) made();
}

function reconcile(parent, before, after, inSvg) {
  const keyed = new Map();
  const plain = [];
  for (const old of before) {
    if (old.key !== undefined && old.key !== null) keyed.set(old.key, old);
    else plain.push(old);
  }
  let at = 0;
  let place = parent.firstChild;
  for (const view of after) {
    let old;
    if (view.key !== undefined && view.key !== null) {
      old = keyed.get(view.key);
      if (old && old.tag !== view.tag) old = undefined;
      if (old) keyed.delete(view.key);
    } else if (at < plain.length && plain[at].tag === view.tag) {
      old = plain[at];
      plain[at++] = null;
    } else {
      const found = plain.findIndex((each, index) => index >= at && each && each.tag === view.tag);
      if (found >= 0) {
        old = plain[found];
        plain[found] = null;
        at = found + 1;
      }
    }
    const node = old ? update(old, view, inSvg) : create(view, inSvg);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const old of plain) if (old) old.node.remove();
  for (const old of keyed.values()) old.node.remove();
}

function create(view, inSvg) {
  if (view.tag === undefined) return (view.node = document.createTextNode(view.text));
  const svg = inSvg || view.tag === "svg";
  const node = svg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag);
  view.node = node;
  reconcile(node, [], view.children, svg);
  for (const [name, value] of Object.entries(view.props)) set(node, name, value, undefined);
  if (view.props.made) fresh.push(() => view.props.made(node));
  return node;
}

function update(old, view, inSvg) {
  const node = (view.node = old.node);
  if (view.tag === undefined) {
    if (old.text !== view.text) node.data = view.text;
    return node;
  }
  reconcile(node, old.children, view.children, inSvg || view.tag === "svg");
  for (const name of Object.keys(old.props)) if (!(name in view.props)) set(node, name, undefined, old.props[name]);
  for (const [name, value] of Object.entries(view.props)) set(node, name, value, old.props[name]);
  return node;
}

function set(node, name, value, old) {
  if (name === "key" || name === "made") return;
  if (name.startsWith("on")) {
    listen(node, name.slice(2), value);
  } else if (PROPERTIES.has(name)) {
    // What somebody types is in the element before it is in the view.
    if (value === undefined) node.removeAttribute(name);
    else if (node[name] !== value) node[name] = value;
  } else if (value === old) {
    return;
  } else if (name === "style") {
    for (const [property, text] of Object.entries(value || {})) node.style.setProperty(property, text);
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    if (name === "href" && !/^(#|blob:|\.\.?\/)/.test(value)) throw new Error(`a link out of the page: ${value}`);
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

const handlers = new WeakMap();

function listen(node, type, handler) {
  let own = handlers.get(node);
  if (!own) handlers.set(node, (own = {}));
  if (!(type in own)) node.addEventListener(type, (event) => own[type] && own[type](event));
  own[type] = handler || null;
}
